package faultproxy

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

const everything = `
seed: 7
rules:
- match: {verbs: [update, patch], resources: [webpages, webpages/status, deployments.apps/*], namespace: default, name: "page-*", userAgent: operator/*}
  when: {every: 3, times: 2}
  do: {answer: {status: 429, retryAfter: 1, late: true}}
- {name: a, when: {nth: 1}, do: {delay: 1s}}
- {name: b, when: {probability: 0.25}, do: {delayAnswer: 10ms}}
- {name: c, do: {hold: true}}
- {name: d, do: {drop: true}}
- {name: e, do: {loseAnswer: true}}
- {name: f, match: {verbs: [watch]}, do: {lag: 10s, initial: true}}
- {name: g, do: {stall: true}}
- {name: h, do: {halfOpen: true}}
- {name: i, do: {cut: {events: 3, after: 5s, clean: true}}}
- {name: j, do: {expire: {events: 3}}}
- {name: k, do: {expire: {}}}
- {name: l, do: {hide: 3}}
`

func TestAPlanIsWrittenAsItIsRead(t *testing.T) {
	plan, err := Parse(strings.NewReader(everything))
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Rules[0].Match.Resources; len(got) != 3 || plan.Seed != 7 || len(plan.Rules) != 13 {
		t.Errorf("the plan is not what was written: %+v", plan)
	}
	if got := plan.Rules[9].Do.Cut; *got != (Cut{Events: 3, After: Duration(5 * time.Second), Clean: true}) {
		t.Errorf("cut: %+v", got)
	}
	again, err := Parse(strings.NewReader(plan.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, plan)
	}
	if !reflect.DeepEqual(plan, again) {
		t.Errorf("read, written and read again:\n%s\nbecame\n%s", plan, again)
	}
}

func TestAnEmptyPlanPassesEverything(t *testing.T) {
	for _, text := range []string{"", "{}", "rules: []"} {
		if plan, err := Parse(strings.NewReader(text)); err != nil || len(plan.Rules) != 0 {
			t.Errorf("%q: %v, %v", text, plan, err)
		}
	}
}

func TestWhatIsWrongWithAPlanIsNamed(t *testing.T) {
	for text, wants := range map[string][]string{
		`rules: [{do: {drop: true}, foo: 1}, {do: {drop: true, baz: 2}}]`: {`"rules[0].foo"`, `"rules[1].do.baz"`},
		`Rules: []`: {`"Rules"`},
		`rules: [{do: {drop: true, drop: false}}]`:                                               {"drop"},
		`rules: [{do: {delay: 5}}]`:                                                              {"a duration is a string"},
		`rules: [{do: {delay: 5 parsecs}}]`:                                                      {"parsecs"},
		`rules: [{}]`:                                                                            {"rules[0].do: exactly one action"},
		`rules: [{do: {drop: true, hold: true}}]`:                                                {"rules[0].do", "hold, drop"},
		`rules: [{match: {verbs: [steal]}, do: {drop: true}}]`:                                   {"rules[0].match.verbs", `"steal"`},
		`rules: [{match: {verbs: [get]}, do: {lag: 1s}}]`:                                        {`"get" has no events for do.lag`},
		`rules: [{match: {resources: [a/b/c]}, do: {drop: true}}]`:                               {`"a/b/c"`},
		`rules: [{when: {nth: 1, every: 2}, do: {drop: true}}]`:                                  {"rules[0].when"},
		`rules: [{when: {nth: -1}, do: {drop: true}}]`:                                           {"rules[0].when", "negative"},
		`rules: [{when: {probability: 1.5}, do: {drop: true}}]`:                                  {"rules[0].when.probability: 1.5"},
		`rules: [{do: {answer: {status: 200}}}]`:                                                 {"rules[0].do.answer.status: 200"},
		`rules: [{do: {drop: true, initial: true}}]`:                                             {"rules[0].do.initial: drop"},
		`rules: [{name: a, do: {drop: true}}, {name: a, do: {drop: true}}]`:                      {`rules[1].name "a" is that of rules[0]`},
		`rules: [{name: rule-2, do: {drop: true}}, {do: {drop: true}}]`:                          {`rules[1].name "rule-2"`},
		`rules: [{do: {cut: {events: -1}}}, {do: {hide: -1}}, {do: {expire: {events: -1}}}]`:     {"rules[0].do", "rules[1].do", "rules[2].do"},
		`rules: [{do: {answer: {status: 600}}}, {when: {times: -1}, do: {delayAnswer: -1s}}, 5]`: {"rules"},
		`rules: {`: {"parse plan"},
	} {
		_, err := Parse(strings.NewReader(text))
		if err == nil {
			t.Errorf("%s: no error", text)
			continue
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q does not contain %q", text, err, want)
			}
		}
	}
}

func ExampleParse() {
	_, err := Parse(strings.NewReader(`
rules:
- name: conflicts
  match: {verbs: [update], resources: [configmaps]}
  when: {evry: 3}
  do: {answer: {status: 409}}
`))
	fmt.Println(err)
	// Output: faultproxy: parse plan: unknown field "rules[0].when.evry"
}

func ExamplePlan_String() {
	fmt.Print(Plan{Rules: []Rule{Lag("far-away", 10*time.Second, "configmaps")}})
	// Output:
	// rules:
	// - do:
	//     lag: 10s
	//   match:
	//     resources:
	//     - configmaps
	//   name: far-away
}
