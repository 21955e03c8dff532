// Package timeline is the why/when record: why a key became due ([Cause]), and what came of each
// run ([Record]).
//
//	recorder := timeline.NewRecorder(100)
//	recorder.Add(timeline.Record{Key: "default/hello", Causes: causes, Outcome: timeline.Succeeded})
//	for _, record := range recorder.Records() { fmt.Println(record) }
//
// # Concurrency
//
// Causes and Records are values that nobody changes once they are handed over. A [Recorder] may be
// used from many goroutines; its lock is a leaf.
//
// # What it does not do
//
// It decides nothing and never holds objects, only their coordinates: a Secret's data cannot leak
// through it.
package timeline
