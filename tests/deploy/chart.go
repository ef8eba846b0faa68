// Renders the templates of a Helm chart with what Helm is made of, Go's text/template, and the few functions of Helm's that
// the chart calls; so the tests need no Helm. Prints the objects as YAML. Takes the name of the release, and the values as
// JSON from standard input; the arguments after the name are the templates.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/template"
)

// JSON is YAML, too.
func toYaml(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}

func nindent(columns int, text string) string {
	return "\n" + strings.ReplaceAll(strings.Repeat(" ", columns)+text, "\n", "\n"+strings.Repeat(" ", columns))
}

func quote(value any) string {
	return fmt.Sprintf("%q", fmt.Sprint(value))
}

func join(between string, values []any) string {
	words := make([]string, len(values))
	for n, value := range values {
		words[n] = fmt.Sprint(value)
	}
	return strings.Join(words, between)
}

// JSON's numbers are floats here.
func add(a float64, b int) int {
	return int(a) + b
}

func sha256sum(text string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
}

func render(release string, files []string) error {
	var values any
	if err := json.NewDecoder(os.Stdin).Decode(&values); err != nil {
		return err
	}
	functions := template.FuncMap{"toYaml": toYaml, "nindent": nindent, "quote": quote, "sha256sum": sha256sum,
		"join": join, "add": add}
	templates, err := template.New("").Option("missingkey=error").Funcs(functions).ParseFiles(files...)
	if err != nil {
		return err
	}
	for _, one := range templates.Templates() {
		fmt.Println("---")
		if err := one.Execute(os.Stdout, map[string]any{"Release": map[string]any{"Name": release}, "Values": values}); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := render(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
