package main

import (
	"sync"
	"time"
)

// slidingLog accepts at most `limit` requests in any span of `window`, and refuses none below that.
type slidingLog struct {
	mu     sync.Mutex
	limit  int
	window time.Duration
	// A ring: `count` times, ascending, from index `oldest` on. It grows up to `limit`.
	times  []time.Time
	oldest int
	count  int
}

type decision struct {
	accepted  bool
	remaining int
	// How long until the oldest request leaves the window.
	reset time.Duration
}

func newSlidingLog(limit int, window time.Duration) *slidingLog {
	return &slidingLog{limit: limit, window: window, times: make([]time.Time, 64)}
}

func (l *slidingLog) spend(now time.Time) decision {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.count > 0 && now.Sub(l.times[l.oldest]) >= l.window {
		l.oldest = (l.oldest + 1) % len(l.times)
		l.count--
	}
	accepted := l.count < l.limit
	if accepted {
		l.append(now)
	}
	return decision{accepted, l.limit - l.count, l.window - now.Sub(l.times[l.oldest])}
}

func (l *slidingLog) append(now time.Time) {
	if l.count == len(l.times) {
		grown := make([]time.Time, min(2*len(l.times), l.limit))
		copied := copy(grown, l.times[l.oldest:])
		copy(grown[copied:], l.times[:l.oldest])
		l.times, l.oldest = grown, 0
	}
	l.times[(l.oldest+l.count)%len(l.times)] = now
	l.count++
}
