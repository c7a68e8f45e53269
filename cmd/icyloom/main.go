// Command icyloom is the whole program: see cmd/internal/cli for its commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/icyloom/icyloom/cmd/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal stops in order, a second one at once
	os.Exit(cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}
