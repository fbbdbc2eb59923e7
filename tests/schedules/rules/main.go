// Reads alert rules with Prometheus' own parser, as `promtool check rules` does.
package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	quiet := slog.New(slog.DiscardHandler)
	groups, errs := rulefmt.ParseFile(
		os.Args[1], false, model.UTF8Validation, parser.NewParser(parser.Options{}), quiet)
	for _, err := range errs {
		fmt.Fprintln(os.Stderr, err)
	}
	if len(errs) > 0 {
		os.Exit(1)
	}
	count := 0
	for _, group := range groups.Groups {
		count += len(group.Rules)
	}
	fmt.Println(count, "rules")
}
