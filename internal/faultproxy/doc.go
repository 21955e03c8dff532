// Package faultproxy stands between a client and a real API server and does what networks and
// servers do on bad days, by a plan that is a small text and replays: the same requests meet the
// same faults.
//
//	plan, err := faultproxy.Parse(file)
//	proxy, err := faultproxy.Start(env.Config, plan)
//	defer proxy.Stop()
//	client, err := kubernetes.NewForConfig(proxy.Config())
//	...
//	err = proxy.Set(faultproxy.Stall("pages", "configmaps")) // from now on, also in open watches
//	err = proxy.Wait(ctx, "pages", 1)
//	err = proxy.Release("pages")
//
// # The plan
//
// YAML or JSON; unknown fields are refused. Every rule says what it matches, when it fires and what
// it does:
//
//	seed: 7
//	rules:
//	- name: conflicts                  # default: rule-<position, from 1>
//	  match:                           # what is left out matches everything
//	    verbs: [update, patch]         # get list watch create update patch apply delete deletecollection
//	    resources: [webpages, webpages/status]
//	    namespace: default             # patterns in namespace, name and userAgent: * and ?
//	    name: page-*
//	    userAgent: operator/*
//	  when: {every: 3}
//	  do: {answer: {status: 409}}
//	- name: far-away
//	  match: {resources: [configmaps]}
//	  do: {lag: 10s}
//
// Resources are written as in roles: "pods" is the resource alone, "pods/status" a sub-resource,
// "pods/*" the resource with all its sub-resources, "*" any resource. A group may follow:
// "deployments.apps/scale". Requests that are for no resource (discovery, health) are never
// touched.
//
// When: {nth: n} is the n-th match only, {every: k} each k-th, {probability: p} a fraction, drawn
// from the seed, the rule's name and the number of the match; nothing is every match. {times: n}
// ends the rule after n faults. Every rule counts all its matches; of the rules that fire, the
// first of the plan acts.
//
// Do, for every request, exactly one of
//
//	delay: 1s               the request is sent later
//	delayAnswer: 1s         the answer is delivered later
//	hold: true              the request is sent when the rule is released
//	drop: true              the connection breaks, the server never sees the request
//	loseAnswer: true        the server carries the request out, then the connection breaks
//	answer: {status: 429, retryAfter: 1}
//	                        the server never sees the request; status is 400 to 599, retryAfter in seconds;
//	                        with late: true the server carries it out and its answer is replaced
//
// or for the events of watches, which it then matches alone
//
//	lag: 10s                each event is delivered 10 s after it arrived, in order
//	stall: true             events are delivered when the rule is released
//	halfOpen: true          nothing is delivered, the connection stays; it breaks when the rule is released
//	cut: {events: 3, after: 5s, clean: true}
//	                        the stream breaks after 3 events, or after 5 s, or at once; clean: it ends well
//	expire: {events: 3}     after 3 events or at once follows an error event 410 Expired, so that the client lists anew
//	hide: 3                 3 events are swallowed, then follows 410 Expired: a gap
//
// Faults of watches spare the first list that is streamed through a watch (sendInitialEvents), up
// to its last bookmark, and bookmarks are no events to be counted; with initial: true beside the
// fault the first list is not spared.
//
// # Identity
//
// All requests are made with the target's credentials; the client's user agent and impersonation
// pass through, and an Authorization header of its own too.
//
// # What it does not do
//
// It does not judge what the client does with the faults. Streams in CBOR are passed on without
// faults of their events, upgraded connections (exec, port-forward) are passed on whole. Events
// that are held back are kept in memory without a bound. Over HTTP/1.1 a broken connection may be
// hidden by the client's own repetition of GET requests; over HTTP/2, the default, it is not.
//
// # Concurrency
//
// A Proxy may be used from many goroutines; Set and Release are in force when they return. A Plan
// is plain data.
//
// # Debugging
//
// [Proxy.Log] says what was done to which request, and [Proxy.Wait] waits until a rule has acted.
package faultproxy
