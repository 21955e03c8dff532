// Package frameworktest helps authors to test what they write for the framework.
//
// [CheckSource] checks a custom event source against the contract of [eventsource.Source], in one
// call:
//
//	func TestMySourceKeepsTheContract(t *testing.T) {
//		frameworktest.CheckSource(t, frameworktest.SourceCheck{
//			New:     func() (eventsource.Source, error) { return mine.New(server.URL) },
//			Provoke: func(_ eventsource.Source, primary trc.Key) { server.Change(primary) },
//			Fail:    func(eventsource.Source) { server.GoDown() },
//			Mend:    func(eventsource.Source) { server.ComeBack() },
//		})
//	}
//
// A source that needs no network can be checked within [testing/synctest]: then waiting costs
// nothing, and Quiet may be hours. Each failure is reported with the rule that was broken. With
// -race the checks find more.
//
// # Concurrency
//
// A check runs in the caller's goroutine and returns when it is done. It calls the functions of a
// [SourceCheck] from several goroutines at once. Checks do not affect each other.
//
// # What it does not do
//
// It does not check the content: whether every outside change arrives, and with which causes, must
// be tested by the author.
package frameworktest
