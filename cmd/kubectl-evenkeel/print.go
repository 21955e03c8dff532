package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/framework/why"
)

// print writes the runs of a primary, the newest last, as the end of a terminal is what is read.
func print(out io.Writer, body []byte) error {
	var page why.OfPrimary
	if err := json.Unmarshal(body, &page); err != nil {
		return fmt.Errorf("the operator's answer: %w", err)
	}
	if len(page.Runs) == 0 {
		_, err := fmt.Fprintln(out, "no run of it is kept: there was none since the operator started, or the records have gone to make room")
		return err
	}
	var text strings.Builder
	for i := len(page.Runs) - 1; i >= 0; i-- {
		printRun(&text, page.Runs[i])
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func printRun(to *strings.Builder, r why.Run) {
	fmt.Fprintf(to, "%s  %s, took %s, waited %s", r.Started.Local().Format(time.DateTime), r.Outcome, why.Seconds(r.Duration), why.Seconds(r.Waited))
	if r.Gate != "" {
		fmt.Fprintf(to, " for %s", r.Gate)
	}
	if r.Attempt > 0 {
		fmt.Fprintf(to, ", retry %d", r.Attempt)
	}
	to.WriteByte('\n')
	for _, cause := range r.Causes {
		fmt.Fprintf(to, "  because  %s\n", cause)
	}
	for _, q := range r.Requests {
		fmt.Fprintf(to, "  wrote    %s (%s)\n", q.Text, q.Proof)
	}
	for _, n := range r.Nodes {
		fmt.Fprintf(to, "  node     %s %s %s\n", n.Name, n.State, strings.TrimSpace(n.Reason+" "+n.Err))
	}
	if r.Err != "" {
		fmt.Fprintf(to, "  error    %s\n", strings.ReplaceAll(r.Err, "\n", "\n           "))
	}
	switch {
	case r.Final:
		to.WriteString("  next     none: no retry can mend it\n")
	case r.Next > 0:
		fmt.Fprintf(to, "  next     after %s at the latest\n", why.Seconds(r.Next))
	}
}
