package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// sealedEnv is set in a process that only reaches the loopback address.
const sealedEnv = "ICYLOOM_E2E_SEALED"

// unsealable is what the sealed process leaves with when it could not bring its
// loopback up; no test has run then.
const unsealable = 75

// runSealed runs this very test program again in a network namespace of its own,
// where nothing but the loopback address can be reached: foreign programs that
// the tests start cannot call home. It reports whether that was possible; root
// can always do it, others where the kernel lets them have a user namespace.
//
// Within the namespace it brings the loopback up and reports false: the tests
// are to run here.
func runSealed() (code int, ran bool) {
	if os.Getenv(sealedEnv) != "" {
		if err := loopbackUp(); err != nil {
			os.Exit(unsealable)
		}
		return 0, false
	}
	// Death is signalled when the thread ends that started the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), sealedEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 { // stays who it is, and may set up its network
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN}
	}
	err := cmd.Run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == unsealable {
		return 0, false
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1, true
	}
	if code = cmd.ProcessState.ExitCode(); code < 0 {
		fmt.Fprintln(os.Stderr, "e2e: the tests ended by", cmd.ProcessState)
		code = 1
	}
	return code, true
}

// loopbackUp brings the loopback interface up.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, lo); err != nil {
		return err
	}
	lo.SetUint16(lo.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// sealed skips a test that starts programs of others which may not reach the
// network from here.
func sealed(t *testing.T) {
	t.Helper()
	if os.Getenv(sealedEnv) == "" {
		t.Skip("SKIPPED: Claude Code and Codex were not tried: no network namespace of our own can be had here")
	}
}

// TestSealed looks at the interfaces that the tests have: the loopback alone.
func TestSealed(t *testing.T) {
	sealed(t)
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == 0 {
			t.Errorf("%s is up", i.Name)
		}
	}
}
