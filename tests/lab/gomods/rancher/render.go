// Copyright (c) 2026 The gpufleet.nvidia contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed base-v3.tmpl
var baseV3 string

//go:embed base-v2.tmpl
var baseV2 string

// generation is a version of the configuration: the template of the user that asks for it, the base that this may begin with, the directory
// that the base imports.
type generation struct{ template, base, directory string }

// The newest first: the first whose template is there counts, and without any the first.
var releases = map[string]struct {
	generations []generation
	imports     bool
}{
	"drop-ins":     {[]generation{{"config-v3.toml.tmpl", baseV3, "config-v3.toml.d"}, {"config.toml.tmpl", baseV2, "config.toml.d"}}, true},
	"templates":    {[]generation{{"config-v3.toml.tmpl", baseV3, ""}, {"config.toml.tmpl", baseV2, ""}}, false},
	"old-template": {[]generation{{"config.toml.tmpl", baseV2, ""}}, false},
}

// What is found on these directories and PATH becomes a handler.
const runtimesPath = "/usr/local/nvidia/toolkit:/opt/kwasm/bin"

var known = map[string]string{
	"crun":                "crun",
	"nvidia":              "nvidia-container-runtime",
	"nvidia-cdi":          "nvidia-container-runtime.cdi",
	"nvidia-experimental": "nvidia-container-runtime-experimental",
}

// The names of what a template of a user may read.
type (
	handler          struct{ RuntimeType, BinaryName string }
	containerdConfig struct{ Address, Config, Opt, Root, State, Template string }
	agentConfig      struct{ CNIBinDir, CNIConfDir, PauseImage, Snapshotter string }
	nodeConfig       struct {
		AgentConfig    agentConfig
		Containerd     containerdConfig
		DefaultRuntime string
		SELinux        bool
	}
	values struct {
		NodeConfig    nodeConfig
		ExtraRuntimes map[string]handler
		SystemdCgroup bool
		Program       string
		Imports       string
	}
)

// render writes the configuration and gives its path.
func render(program, data string, options map[string]string) (string, error) {
	name, err := os.ReadFile(release)
	if err != nil {
		return "", err
	}
	of, ok := releases[strings.TrimSpace(string(name))]
	if !ok {
		return "", fmt.Errorf("%s says %q, which is no release of the lab", release, name)
	}
	home := filepath.Join(data, "agent/etc/containerd")
	chosen, text, err := choose(home, of.generations)
	if err != nil {
		return "", err
	}
	extra := handlers()
	wanted := options["default-runtime"]
	if _, found := extra[wanted]; wanted != "" && !found {
		return "", fmt.Errorf("default runtime %s was not found", wanted)
	}
	config := filepath.Join(home, "config.toml")
	root := filepath.Join(data, "agent/containerd")
	given := values{
		NodeConfig: nodeConfig{
			AgentConfig: agentConfig{
				CNIBinDir:   "/usr/lib/cni",
				CNIConfDir:  "/etc/cni/net.d",
				PauseImage:  value(options, "pause-image", "registry.k8s.io/pause:3.10"),
				Snapshotter: value(options, "snapshotter", "overlayfs"),
			},
			Containerd:     containerdConfig{Address: address, Config: config, Opt: root, Root: root, State: state, Template: home},
			DefaultRuntime: wanted,
		},
		ExtraRuntimes: extra,
		SystemdCgroup: systemdCgroup(),
		Program:       program,
	}
	if of.imports {
		given.Imports = filepath.Join(home, chosen.directory, "*.toml")
	}
	out, err := executed(text, chosen.base, given)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return "", err
	}
	return config, os.WriteFile(config, out, 0o600)
}

func choose(home string, generations []generation) (generation, string, error) {
	for _, one := range generations {
		text, err := os.ReadFile(filepath.Join(home, one.template))
		if err == nil {
			return one, string(text), nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return one, "", err
		}
	}
	return generations[0], generations[0].base, nil
}

func executed(text, base string, given values) ([]byte, error) {
	whole, err := template.New("compiled_template").Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, err
	}
	if _, err := whole.New("base").Parse(base); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = whole.Execute(&out, given)
	return out.Bytes(), err
}

func handlers() map[string]handler {
	path := os.Getenv("PATH")
	defer os.Setenv("PATH", path)
	os.Setenv("PATH", runtimesPath+":"+path)
	found := map[string]handler{}
	for name, program := range known {
		if file, err := exec.LookPath(program); err == nil {
			found[name] = handler{"io.containerd.runc.v2", file}
		}
	}
	return found
}

// systemdCgroup is true for a service of systemd that has cpuset's controller.
func systemdCgroup() bool {
	controllers, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	return err == nil && os.Getenv("INVOCATION_ID") != "" && strings.Contains(" "+string(controllers)+" ", "cpuset")
}
