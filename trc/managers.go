package trc

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// managed is who changed an object last, and when, in seconds since 1970. The zero value means
// unknown.
type managed struct {
	manager string
	at      uint32
}

// newer returns the newer of two. Within the same second that is the one that comes later in
// managedFields.
func (m managed) newer(manager string, at time.Time) managed {
	seconds := uint32(at.Unix())
	if manager == "" || at.IsZero() || seconds < m.at {
		return m
	}
	return managed{manager: manager, at: seconds}
}

// lastManagerOf reads managedFields. It does not convert all fields of an unstructured object.
func lastManagerOf(o Object) (last managed) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		for _, entry := range o.GetManagedFields() {
			if entry.Time != nil {
				last = last.newer(entry.Manager, entry.Time.Time)
			}
		}
		return last
	}
	for _, item := range managedFieldsOf(u) {
		entry, _ := item.(map[string]any)
		manager, _ := entry["manager"].(string)
		text, _ := entry["time"].(string)
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			last = last.newer(manager, at)
		}
	}
	return last
}

func managedFieldsOf(u *unstructured.Unstructured) []any {
	metadata, _ := u.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	return entries
}

func hasManagedFields(o Object) bool {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return len(managedFieldsOf(u)) > 0
	}
	return len(o.GetManagedFields()) > 0
}

// dropManagedFields does not touch an object that has none, because others may be reading it
// already.
func dropManagedFields(o Object) {
	if hasManagedFields(o) {
		o.SetManagedFields(nil)
	}
}

// LastManager returns the field manager that changed the object last, according to the
// managedFields with which it entered the store, and the time of that change, to the second. ok is
// false if there is no such object or it had no managedFields.
func (s *Store) LastManager(key Key) (manager string, at time.Time, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	it := s.items.find(key)
	if it == nil || it.since == 0 {
		return "", time.Time{}, false
	}
	return s.items.managers.name(it.manager), time.Unix(int64(it.since), 0), true
}

// managers keeps each manager's name once for all its objects, while there are any. A manager is a
// number from 1 on; 0 means none.
type managers struct {
	numbers map[string]uint32
	names   []struct {
		name    string
		objects int
	}
	free []uint32
}

func (m *managers) name(number uint32) string {
	if number == 0 {
		return ""
	}
	return m.names[number-1].name
}

// exchange releases a manager and returns the number of another.
func (m *managers) exchange(old uint32, name string) uint32 {
	if m.name(old) == name {
		return old
	}
	if old != 0 {
		m.release(old)
	}
	if name == "" {
		return 0
	}
	number, known := m.numbers[name]
	if !known {
		number = m.newNumber(name)
	}
	m.names[number-1].objects++
	return number
}

func (m *managers) release(number uint32) {
	n := &m.names[number-1]
	if n.objects--; n.objects == 0 {
		delete(m.numbers, n.name)
		n.name = ""
		m.free = append(m.free, number)
	}
}

func (m *managers) newNumber(name string) uint32 {
	if len(m.free) == 0 {
		m.names = append(m.names, struct {
			name    string
			objects int
		}{})
		m.free = append(m.free, uint32(len(m.names)))
	}
	number := m.free[len(m.free)-1]
	m.free = m.free[:len(m.free)-1]
	m.names[number-1].name = name
	if m.numbers == nil {
		m.numbers = map[string]uint32{}
	}
	m.numbers[name] = number
	return number
}
