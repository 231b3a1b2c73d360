// Copyright (c) 2026 The gpufleet.nvidia contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

var strategies = []string{"envvar", "volume-mounts", "cdi-annotations", "cdi-cri"}

// settings are what a flag says, else the environment, else the file, else NVIDIA's own default.
type settings struct {
	Strategies  []string
	IDs         string // uuid or index
	Prefix      string
	Hook        string
	DeviceSpecs bool
	Replicas    int // 1: a GPU for each pod
	Rename      bool
	FailAbove   bool // a request of more than one replica fails
}

// list takes the two forms that the file may have. A text is one strategy there: the commas that separate them in a flag mean nothing.
type list []string

func (l *list) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*l = list{one}
		return nil
	}
	var many []string
	if json.Unmarshal(text, &many) != nil {
		return fmt.Errorf("invalid deviceListStrategy: %s", text)
	}
	*l = many
	return nil
}

type file struct {
	Version string `json:"version"`
	Flags   struct {
		MigStrategy *string `json:"migStrategy"`
		Plugin      struct {
			PassDeviceSpecs     *bool   `json:"passDeviceSpecs"`
			DeviceListStrategy  *list   `json:"deviceListStrategy"`
			DeviceIDStrategy    *string `json:"deviceIDStrategy"`
			CDIAnnotationPrefix *string `json:"cdiAnnotationPrefix"`
			NvidiaCTKPath       *string `json:"nvidiaCTKPath"`
		} `json:"plugin"`
	} `json:"flags"`
	Sharing struct {
		TimeSlicing *replicated    `json:"timeSlicing"`
		MPS         map[string]any `json:"mps"`
	} `json:"sharing"`
}

// replicated is one flavor of sharing. NVIDIA's reads over what selects devices or renames a resource, which here is refused.
type replicated struct {
	Rename    bool `json:"renameByDefault"`
	FailAbove bool `json:"failRequestsGreaterThanOne"`
	Resources []struct {
		Name     string `json:"name"`
		Replicas int    `json:"replicas"`
	} `json:"resources"`
}

func load(arguments []string, environment func(string) (string, bool)) (settings, error) {
	flags := flag.NewFlagSet("device-plugin", flag.ContinueOnError)
	given := map[string]*string{}
	for _, name := range []string{"config-file", "device-list-strategy", "device-id-strategy", "cdi-annotation-prefix", "nvidia-cdi-hook-path", "pass-device-specs"} {
		given[name] = flags.String(name, "", "")
	}
	if err := flags.Parse(arguments); err != nil {
		return settings{}, err
	}
	said := map[string]string{}
	for name := range given {
		if value, ok := environment(strings.ToUpper(strings.ReplaceAll(name, "-", "_"))); ok {
			said[name] = value
		}
	}
	flags.Visit(func(f *flag.Flag) { said[f.Name] = f.Value.String() })
	read, err := parsed(said["config-file"])
	if err != nil {
		return settings{}, err
	}
	return settled(said, read)
}

func parsed(path string) (file, error) {
	read := file{Version: "v1"}
	if path == "" {
		return read, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return read, fmt.Errorf("error opening config file: %w", err)
	}
	if err := yaml.Unmarshal(text, &read); err != nil {
		return read, fmt.Errorf("error parsing config file: unmarshal error: %w", err)
	}
	if read.Version != "v1" {
		return read, fmt.Errorf("error parsing config file: unknown version: %s", read.Version)
	}
	return read, nil
}

func settled(said map[string]string, read file) (settings, error) {
	own := read.Flags.Plugin
	result := settings{
		IDs:    first(said, "device-id-strategy", own.DeviceIDStrategy, "uuid"),
		Prefix: first(said, "cdi-annotation-prefix", own.CDIAnnotationPrefix, "cdi.k8s.io/"),
		Hook:   first(said, "nvidia-cdi-hook-path", own.NvidiaCTKPath, "/usr/bin/nvidia-ctk"),
	}
	result.Strategies = []string{"envvar"}
	if own.DeviceListStrategy != nil {
		result.Strategies = *own.DeviceListStrategy
	}
	if value, ok := said["device-list-strategy"]; ok {
		result.Strategies = strings.Split(value, ",")
	}
	result.DeviceSpecs = own.PassDeviceSpecs != nil && *own.PassDeviceSpecs
	if value, ok := said["pass-device-specs"]; ok {
		on, err := strconv.ParseBool(value)
		if err != nil {
			return result, fmt.Errorf("invalid --pass-device-specs option: %w", err)
		}
		result.DeviceSpecs = on
	}
	if err := judged(result, read); err != nil {
		return result, err
	}
	return result.shared(read.Sharing.TimeSlicing)
}

func first(said map[string]string, name string, read *string, otherwise string) string {
	if value, ok := said[name]; ok {
		return value
	}
	if read != nil {
		return *read
	}
	return otherwise
}

func judged(result settings, read file) error {
	for _, name := range result.Strategies {
		if !slices.Contains(strategies, name) {
			return fmt.Errorf("invalid --device-list-strategy option: invalid strategy: %s", name)
		}
	}
	if result.IDs != "uuid" && result.IDs != "index" {
		return fmt.Errorf("invalid --device-id-strategy option: %s", result.IDs)
	}
	if mig := read.Flags.MigStrategy; read.Sharing.MPS != nil || mig != nil && *mig != "none" {
		return errors.New("the lab's device plugin knows neither MIG nor MPS")
	}
	return nil
}

// shared takes what the file says of time slicing, with the plugin's own words where that is wrong (api/config/v1/replicas.go).
func (s settings) shared(of *replicated) (settings, error) {
	s.Replicas = 1
	if of == nil {
		return s, nil
	}
	if len(of.Resources) == 0 {
		return s, errors.New("error parsing config file: unmarshal error: no resources specified")
	}
	for _, one := range of.Resources {
		if one.Name == "" {
			return s, errors.New("error parsing config file: unmarshal error: no resource name specified")
		}
		if one.Replicas < 2 {
			return s, errors.New("error parsing config file: unmarshal error: number of replicas must be >= 2")
		}
		if one.Name == resource {
			s.Replicas, s.Rename, s.FailAbove = one.Replicas, of.Rename, of.FailAbove
		}
	}
	return s, nil
}

// resource is the name that pods ask for.
func (s settings) resource() string {
	if s.Replicas > 1 && s.Rename {
		return resource + ".shared"
	}
	return resource
}

func (s settings) includes(name string) bool { return slices.Contains(s.Strategies, name) }

func (s settings) anyCDI() bool { return s.includes("cdi-annotations") || s.includes("cdi-cri") }

func (s settings) allCDI() bool { return !s.includes("envvar") && !s.includes("volume-mounts") }
