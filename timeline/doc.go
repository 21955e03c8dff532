// Package timeline records why a key became due ([Cause]) and what each run did ([Record]).
//
//	recorder := timeline.NewRecorder(100)
//	recorder.Add(timeline.Record{Key: "default/hello", Causes: causes, Outcome: timeline.Succeeded})
//	for _, record := range recorder.Records() { fmt.Println(record) }
//
// # Concurrency
//
// Causes and Records are values that must not be changed once they are handed over. A [Recorder]
// and [Histories] may be used from many goroutines; their locks are leaves in the lock order.
//
// # What it does not do
//
// It decides nothing. It never holds objects, only their coordinates, so a Secret's data cannot
// leak through it.
package timeline
