// Copyright (c) 2026 The gpufleet.nvidia contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Stands for k3s and RKE2, by the name it is called: renders the configuration of a containerd, starts that as its child, and says when it serves.
// There is no Kubernetes in it. What it imitates is described in their documentation and in k3s' pkg/agent/containerd.
package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	state   = "/run/k3s/containerd" // RKE2's, too
	address = state + "/containerd.sock"
	release = "/etc/lab-rancher" // which releases of k3s this host stands for: one of the names in releases
)

func main() {
	runtime.LockOSThread() // the kernel ends containerd when the thread that started it ends
	program := filepath.Base(os.Args[0])
	if err := run(program, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(1)
	}
}

func run(program string, arguments []string) error {
	if len(arguments) == 0 {
		return errors.New("say server, agent or ctr")
	}
	options, err := settings(program, arguments[1:])
	if err != nil && arguments[0] != "ctr" {
		return err
	}
	home := "/var/lib/rancher/" + program
	data := value(options, "data-dir", home)
	bin, err := unpacked(home, data)
	if err != nil {
		return err
	}
	switch arguments[0] {
	case "ctr":
		ctr := filepath.Join(bin, "ctr")
		return syscall.Exec(ctr, append([]string{"ctr", "--address", address}, arguments[1:]...), os.Environ())
	case "server", "agent":
		os.Setenv("PATH", bin+":"+os.Getenv("PATH"))
		config, err := render(program, data, options)
		if err != nil {
			return err
		}
		return serve(bin, config, filepath.Join(data, "agent/containerd"))
	}
	return fmt.Errorf("%s is nothing that the lab's %s does", arguments[0], program)
}

// settings are those of the configuration file, and flags before them.
func settings(program string, flags []string) (map[string]string, error) {
	found := map[string]string{}
	text, err := os.ReadFile("/etc/rancher/" + program + "/config.yaml")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, line := range strings.Split(string(text), "\n") {
		if key, said, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(key, "#") {
			found[strings.TrimSpace(key)] = strings.Trim(strings.TrimSpace(said), `"'`)
		}
	}
	for n := 0; n < len(flags); n++ {
		key, said, ok := strings.Cut(strings.TrimLeft(flags[n], "-"), "=")
		if !ok {
			if n++; n == len(flags) {
				return nil, fmt.Errorf("flag needs an argument: --%s", key)
			}
			said = flags[n]
		}
		found[key] = said
	}
	return found, nil
}

func value(options map[string]string, key, otherwise string) string {
	if said := options[key]; said != "" {
		return said
	}
	return otherwise
}

// unpacked is the directory of the bundled programs, which lie below the data directory, wherever that is.
func unpacked(home, data string) (string, error) {
	programs := filepath.Join(data, "data")
	if _, err := os.Stat(programs); errors.Is(err, os.ErrNotExist) {
		if err := os.CopyFS(programs, os.DirFS(filepath.Join(home, "data"))); err != nil {
			return "", err
		}
	}
	found, err := filepath.Glob(filepath.Join(programs, "*/bin/containerd"))
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("there are no programs in %s", programs)
	}
	return filepath.EvalSymlinks(filepath.Dir(found[0]))
}

func serve(bin, config, root string) error {
	if err := os.MkdirAll(root, 0o711); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(root, "containerd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	child := exec.Command(filepath.Join(bin, "containerd"))
	child.Args = []string{"containerd", "-c", config, "-a", address, "--state", state, "--root", root}
	child.Stdout, child.Stderr = log, log
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "NOTIFY_SOCKET=") {
			child.Env = append(child.Env, entry)
		}
	}
	if err := child.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	for {
		if connection, err := net.Dial("unix", address); err == nil {
			connection.Close()
			break
		}
		select {
		case err := <-ended:
			return fmt.Errorf("containerd ended: %v; see %s", err, log.Name())
		case <-time.After(100 * time.Millisecond):
		}
	}
	ready()
	return fmt.Errorf("containerd ended: %v; see %s", <-ended, log.Name())
}

func ready() {
	socket := os.Getenv("NOTIFY_SOCKET")
	if connection, err := net.Dial("unixgram", socket); socket != "" && err == nil {
		fmt.Fprint(connection, "READY=1")
		connection.Close()
	}
}
