package recorder

import "sync"

// Lock stands for the method of a sync.Mutex or a sync.RWMutex.
func Lock(l sync.Locker, class, at string) func() { return taking(l, class, at, l.Lock) }

// Unlock stands for the method of a sync.Mutex or a sync.RWMutex.
func Unlock(l sync.Locker, _, _ string) func() { return releasing(l, l.Unlock) }

// TryLock stands for the method of a sync.Mutex or a sync.RWMutex.
func TryLock(l interface{ TryLock() bool }, class, at string) func() bool {
	return trying(l, class, at, l.TryLock)
}

// RLock stands for the method of a sync.RWMutex.
func RLock(l *sync.RWMutex, class, at string) func() { return taking(l, class, at, l.RLock) }

// RUnlock stands for the method of a sync.RWMutex.
func RUnlock(l *sync.RWMutex, _, _ string) func() { return releasing(l, l.RUnlock) }

// TryRLock stands for the method of a sync.RWMutex.
func TryRLock(l *sync.RWMutex, class, at string) func() bool {
	return trying(l, class, at, l.TryRLock)
}

// Wait stands for the method of a sync.Cond.
func Wait(c *sync.Cond, _, at string) func() {
	return func() {
		held, ok := global.releases(address(c.L))
		c.Wait()
		if ok {
			global.wants(held.lock, held.class, at, false)
			global.takes(held.lock, held.class, at)
		}
	}
}

// Do stands for the method of a sync.Once.
func Do(o *sync.Once, class, at string) func(func()) {
	of := address(o)
	return func(f func()) {
		global.wants(of, class, at, false)
		o.Do(func() {
			global.takes(of, class, at)
			defer global.releases(of)
			f()
		})
	}
}

// Address stands for a mutex's address, through which it may be taken elsewhere.
func Address[L sync.Locker](l L, class, _ string) L {
	global.mu.Lock()
	defer global.mu.Unlock()
	global.classes[address(l)] = class
	return l
}

// Received records that a lock was taken by a receive from its channel.
func Received(channel any, class, at string) {
	global.wants(address(channel), class, at, false)
	global.takes(address(channel), class, at)
}

// Sends records that a lock is about to be released by a send to its channel.
func Sends(channel any) { global.releases(address(channel)) }
