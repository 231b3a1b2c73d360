// Copyright (c) 2026 The gpufleet.nvidia contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Loads and injects CDI specs by the reference library, one case per line of standard input and one answer per line of
// standard output, so that thousands of cases take one process. library.go and older.go say which library that is.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	oci "github.com/opencontainers/runtime-spec/specs-go"
)

// request is one case: the bytes of files (name to base64) per directory, in the order of the engine's list; or directories
// that are there. Containers to inject into come with the names of the devices.
type request struct {
	Files  []map[string][]byte `json:"files"`
	Dirs   []string            `json:"dirs"`
	Inject []injection         `json:"inject"`
}

type injection struct {
	Container *oci.Spec `json:"container"`
	Devices   []string  `json:"devices"`
}

// answer tells the devices that are resolved, the errors by file, and the containers after the injection.
type answer struct {
	Devices  []string            `json:"devices"`
	Errors   map[string][]string `json:"errors"`
	Injected []injected          `json:"injected"`
	Panic    string              `json:"panic,omitempty"`
}

type injected struct {
	Container  *oci.Spec `json:"container,omitempty"`
	Unresolved []string  `json:"unresolved,omitempty"`
	Error      string    `json:"error,omitempty"`
}

func main() {
	scratch := os.Args[1]
	input := bufio.NewReaderSize(os.Stdin, 1<<20)
	output := bufio.NewWriter(os.Stdout)
	decoder, encoder := json.NewDecoder(input), json.NewEncoder(output)
	for decoder.More() {
		var asked request
		if err := decoder.Decode(&asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		dirs := asked.Dirs
		if asked.Files != nil {
			dirs = lay(scratch, asked.Files)
		}
		if err := encoder.Encode(judge(dirs, asked.Inject)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		must(output.Flush())
	}
}

// lay writes the files of one case over those of the one before.
func lay(scratch string, files []map[string][]byte) []string {
	dirs := []string{}
	for index, content := range files {
		dir := filepath.Join(scratch, fmt.Sprint(index))
		must(os.RemoveAll(dir))
		must(os.MkdirAll(dir, 0o755))
		for name, data := range content {
			must(os.WriteFile(filepath.Join(dir, name), data, 0o644))
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// judge is what an engine does. The library may panic, which ends an engine and must not end the comparison.
func judge(dirs []string, inject []injection) (told answer) {
	defer func() {
		if found := recover(); found != nil {
			told = answer{Panic: fmt.Sprint(found)}
		}
	}()
	cache, err := newCache(withSpecDirs(dirs...), withAutoRefresh(false))
	must(err)
	told.Devices = cache.ListDevices()
	told.Errors = map[string][]string{}
	for path, errs := range cache.GetErrors() {
		for _, err := range errs {
			told.Errors[path] = append(told.Errors[path], err.Error())
		}
	}
	for _, wanted := range inject {
		// A cache of its own: the library writes what it fills in into the spec that it keeps.
		fresh, err := newCache(withSpecDirs(dirs...), withAutoRefresh(false))
		must(err)
		unresolved, err := fresh.InjectDevices(wanted.Container, wanted.Devices...)
		if err != nil {
			told.Injected = append(told.Injected, injected{Unresolved: unresolved, Error: err.Error()})
		} else {
			told.Injected = append(told.Injected, injected{Container: wanted.Container})
		}
	}
	return told
}
