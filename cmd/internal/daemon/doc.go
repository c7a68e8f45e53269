// Package daemon puts the parts together and runs them: one process that holds
// one home.
//
// It is the only place where siblings meet. Ledger is the lower half, which
// commands open for themselves where no daemon runs: the home's lock, the log
// and its tables. Daemon adds what answers and acts: the spool, the gateway, the
// console, the keeper of cached bodies and the control socket. Parts start from
// the log upwards and stop from the ports downwards, so that whatever a client
// was told is in the log before the log closes.
package daemon
