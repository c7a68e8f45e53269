// Package projections folds the log into SQLite tables and answers questions
// about the past from them.
//
// A projection is a set of tables that is a pure function of a prefix of the
// log: a fold reads no clock, no random source and nothing outside the events,
// so folding live, rebuilding from zero, and stopping and resuming anywhere
// give the same rows, which Digest proves. Queries take now as an argument.
//
// The package is the only reader of its files. It imports events and nothing
// else of this module; it never appends.
package projections
