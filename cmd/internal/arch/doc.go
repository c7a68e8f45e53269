// Package arch holds the project to its own shape: who may import whom, what
// stands at the top, how long a file and a function may be. It has tests only,
// and they read the sources themselves.
package arch
