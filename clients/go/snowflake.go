// Package snowflake makes ids from blocks of snowflake_reserve(), and by itself with a worker id
// leased from snowflake_registry.  README.md has the contract of both.  Any driver of
// database/sql will do, such as lib/pq or pgx.  Give a generator an sql.DB of its own.  Any number of
// goroutines may share a generator.
package snowflake

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"sync"
	"time"
)

const (
	answerTimeout = 10 * time.Second
	maxSize       = 1_000_000 // what one call of snowflake_reserve() returns at most
)

type block struct {
	next, last int64
	since      time.Time // when it was asked for
}

// What goes on in the background, until done is closed.
type fetch struct {
	done chan struct{}
	err  error
}

// IDs hands out ids from blocks.
type IDs struct {
	db     *sql.DB
	size   int
	maxAge time.Duration
	closed chan struct{}
	once   sync.Once

	mutex  sync.Mutex // protects the rest
	blocks []block
	left   int64
	fetch  *fetch // nil: none
}

// NewIDs makes a generator with blocks of "size" ids, 1 to 1,000,000. The time of an id is at most
// maxAge ago when it is returned.
func NewIDs(db *sql.DB, size int, maxAge time.Duration) (*IDs, error) {
	if db == nil {
		return nil, errors.New("snowflake ids need a database")
	}
	if size < 1 || size > maxSize {
		return nil, fmt.Errorf("size must be from 1 to %d, not %d", maxSize, size)
	}
	if maxAge <= 0 {
		return nil, fmt.Errorf("maxAge must be greater than 0, not %v", maxAge)
	}
	return &IDs{db: db, size: size, maxAge: maxAge, closed: make(chan struct{})}, nil
}

// NextID returns an id that nobody else gets.
func (ids *IDs) NextID() (int64, error) {
	ids.mutex.Lock()
	defer ids.mutex.Unlock()
	for {
		select {
		case <-ids.closed:
			return 0, errors.New("these snowflake ids are closed")
		default:
		}
		for len(ids.blocks) > 0 && time.Since(ids.blocks[0].since) >= ids.maxAge {
			ids.left -= ids.blocks[0].last - ids.blocks[0].next + 1
			ids.blocks = ids.blocks[1:]
		}
		if len(ids.blocks) > 0 {
			break
		}
		underWay := ids.fetchNext()
		ids.mutex.Unlock()
		answered := true
		select {
		case <-underWay.done:
		case <-ids.closed:
		case <-time.After(answerTimeout):
			answered = false
		}
		ids.mutex.Lock()
		if !answered {
			ids.end(underWay) // one that gets no answer does not hold up the next one
			return 0, errors.New("no snowflake ids: the database does not answer")
		}
		if len(ids.blocks) == 0 && underWay.err != nil {
			return 0, fmt.Errorf("no snowflake ids: the database has reserved none: %w", underWay.err)
		}
	}
	id := ids.blocks[0].next
	if id == ids.blocks[0].last {
		ids.blocks = ids.blocks[1:]
	} else {
		ids.blocks[0].next++
	}
	ids.left--
	if ids.left == int64(ids.size/2) {
		ids.fetchNext()
	}
	return id, nil
}

// Close throws away the ids that are left.
func (ids *IDs) Close() error {
	ids.once.Do(func() { close(ids.closed) })
	return nil
}

func (ids *IDs) fetchNext() *fetch {
	if ids.fetch == nil {
		ids.fetch = &fetch{done: make(chan struct{})}
		go ids.reserve(ids.fetch)
	}
	return ids.fetch
}

func (ids *IDs) reserve(underWay *fetch) {
	since := time.Now() // the time of the ids is not before this
	fetched, err := ids.query(since)
	if took := time.Since(since); err == nil && took >= ids.maxAge {
		err = fmt.Errorf("a block took %v to arrive, and maxAge is %v", took, ids.maxAge)
	}
	ids.mutex.Lock()
	defer ids.mutex.Unlock()
	if err == nil {
		ids.blocks = append(ids.blocks, fetched...)
		for _, each := range fetched {
			ids.left += each.last - each.next + 1
		}
	}
	underWay.err = err
	ids.end(underWay)
	close(underWay.done)
}

func (ids *IDs) end(underWay *fetch) {
	if ids.fetch == underWay {
		ids.fetch = nil
	}
}

func (ids *IDs) query(since time.Time) (fetched []block, err error) {
	timeout, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	rows, err := ids.db.QueryContext(timeout, "SELECT first_id, last_id FROM snowflake_reserve($1)", ids.size)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		each := block{since: since}
		if err := rows.Scan(&each.next, &each.last); err != nil {
			return nil, err
		}
		if each.next <= each.last {
			fetched = append(fetched, each)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if len(fetched) == 0 {
		return nil, errors.New("snowflake_reserve() has returned no ids")
	}
	return fetched, nil
}

const maxWait = 1_000_000 // us

// Lease makes ids by itself.
type Lease struct {
	db             *sql.DB
	holder, layout string
	duration       time.Duration
	now            func() time.Time
	maxAhead       int64  // us; less than what is left of a lease that is renewed
	instance       string // a new one at each start
	closed         chan struct{}
	once           sync.Once
	calls          sync.Mutex // one call of the registry at a time

	tick, epoch  int64 // us; us since 1970
	bits, shifts map[string]int
	sequenceBits int
	datacenter   int64 // in place
	ticks        int64

	mutex    sync.Mutex // protects the rest
	workerID int64
	starts   int64 // us since 1970; no lease: both 0
	ends     int64
	first    int64 // ids are of ticks from this one on
	end      int64 // and before this one
	word     int64 // tick and sequence of the last id
	failure  error // of the last call of the registry
}

// NewLease leases a worker id. The layout is a text as snowflake_capacity() returns it. "now" is
// time.Now, or another clock.
func NewLease(db *sql.DB, holder, layout string, datacenterID int64, duration time.Duration, now func() time.Time) (*Lease, error) {
	if db == nil || now == nil {
		return nil, errors.New("a snowflake lease needs a database and a clock")
	}
	if duration < time.Millisecond {
		return nil, fmt.Errorf("duration must be at least 1 ms, not %v", duration)
	}
	var token [16]byte
	if _, err := rand.Read(token[:]); err != nil {
		return nil, err
	}
	lease := &Lease{db: db, holder: holder, layout: layout, duration: duration, now: now,
		maxAhead: -max(-5_000_000, -duration.Microseconds()/3),
		instance: fmt.Sprintf("%x", token), closed: make(chan struct{})}
	if err := lease.readLayout(datacenterID); err != nil {
		return nil, err
	}
	if err := lease.keep(); err != nil {
		return nil, err
	}
	go lease.keepOn()
	return lease, nil
}

// NextID returns an id that nobody else makes.
func (lease *Lease) NextID() (int64, error) {
	lease.mutex.Lock()
	defer lease.mutex.Unlock()
	for {
		select {
		case <-lease.closed:
			return 0, errors.New("this snowflake lease is closed")
		default:
		}
		now := lease.now().UnixMicro()
		from := max(floorDiv(now-lease.epoch, lease.tick), lease.first)
		// beyond the last tick, the word would overflow
		ended := from >= lease.end || lease.word == math.MaxInt64
		word := int64(0)
		if !ended {
			word = max(lease.word+1, from<<lease.sequenceBits)
		}
		tick := word >> lease.sequenceBits
		if ended || tick >= lease.end {
			if lease.failure != nil {
				return 0, fmt.Errorf("snowflake lease has ended: %w", lease.failure)
			}
			return 0, errors.New("snowflake lease has ended")
		}
		missing := tick*lease.tick + lease.epoch - lease.maxAhead - now
		if missing > maxWait {
			return 0, fmt.Errorf("snowflake ids are too far ahead of the clock, by another %d ms", missing/1000)
		}
		if missing <= 0 {
			lease.word = word
			return tick<<lease.shifts["time"] | lease.datacenter | lease.workerID<<lease.shifts["worker"] |
				(word&(1<<lease.sequenceBits-1))<<lease.shifts["sequence"], nil
		}
		lease.mutex.Unlock()
		select {
		case <-time.After(time.Duration(missing) * time.Microsecond):
		case <-lease.closed:
		}
		lease.mutex.Lock()
	}
}

// Close gives the lease back.
func (lease *Lease) Close() error {
	lease.mutex.Lock()
	lease.once.Do(func() { close(lease.closed) })
	lease.mutex.Unlock()
	lease.calls.Lock()
	defer lease.calls.Unlock()
	if lease.ends == 0 {
		return nil
	}
	// later than all of its ids
	used := max((lease.word>>lease.sequenceBits+1)*lease.tick+lease.epoch, lease.starts)
	_, err := lease.ask("SELECT 0, 0, snowflake_registry.release($1::bigint, $2::uuid, "+instant("$3")+")::integer", lease.workerID, lease.instance, used)
	if err == nil {
		lease.ends = 0
	}
	return err
}

func (lease *Lease) keepOn() {
	// a call that hangs for a third must not put off the next one
	ticker := time.NewTicker(lease.duration / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-lease.closed:
			return
		}
		if err := lease.keep(); err != nil {
			// the next call may succeed, and the lease goes on until its end
			lease.mutex.Lock()
			lease.failure = err
			lease.mutex.Unlock()
		}
	}
}

// Renews the lease, or gets another one.
func (lease *Lease) keep() error {
	lease.calls.Lock()
	defer lease.calls.Unlock()
	select {
	case <-lease.closed:
		return nil
	default:
	}
	length := fmt.Sprintf("%d ms", lease.duration.Milliseconds())
	if lease.ends != 0 {
		row, err := lease.ask("SELECT 0, 0, "+microseconds("snowflake_registry.renew($1::bigint, $2::uuid, "+instant("$3")+", "+instant("$4")+", $5::interval)"),
			lease.workerID, lease.instance, lease.ends, lease.now().UnixMicro(), length)
		if err != nil {
			return err
		}
		if row[2] != 0 { // not NULL: it is not lost
			lease.set(lease.workerID, lease.starts, row[2])
			return nil
		}
	}
	row, err := lease.ask("SELECT worker_id, "+microseconds("starts")+", "+microseconds("ends")+
		" FROM snowflake_registry.acquire($1::text, $2::uuid, $3::text, $4::bigint, "+instant("$5")+", $6::interval)",
		lease.holder, lease.instance, lease.layout, int64(1)<<lease.bits["worker"], lease.now().UnixMicro(), length)
	if err == sql.ErrNoRows {
		return errors.New("registry has no free worker id")
	}
	if err != nil {
		return err
	}
	lease.set(row[0], row[1], row[2])
	return nil
}

func (lease *Lease) set(workerID, starts, ends int64) {
	lease.mutex.Lock()
	defer lease.mutex.Unlock()
	if workerID != lease.workerID {
		// in the same tick, ids of another worker may sort below the last one
		lease.word |= 1<<lease.sequenceBits - 1
	}
	lease.workerID, lease.starts, lease.ends, lease.failure = workerID, starts, ends, nil
	lease.first = max(lease.tickFrom(starts), 0)
	lease.end = -max(-lease.tickFrom(ends), -lease.ticks)
}

// Runs a statement, and returns its row.
func (lease *Lease) ask(query string, arguments ...any) (row [3]int64, err error) {
	type answer struct {
		row [3]int64
		err error
	}
	limit := time.Duration(-max(-int64(lease.duration/3), -int64(answerTimeout)))
	timeout, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	answers := make(chan answer, 1)
	go func() { // a driver may wait for an answer even then
		var a answer
		a.err = lease.db.QueryRowContext(timeout, query, arguments...).Scan(&a.row[0], &a.row[1], &a.row[2])
		answers <- a
	}()
	select {
	case a := <-answers:
		return a.row, a.err
	case <-timeout.Done():
		return row, errors.New("registry does not answer")
	}
}

func instant(us string) string {
	return "timestamptz 'epoch' + " + us + "::bigint * interval '1 microsecond'"
}

func microseconds(instant string) string {
	return "(extract(epoch FROM greatest(" + instant + ", 'epoch')) * 1000000)::bigint"
}

func floorDiv(a, b int64) int64 {
	quotient := a / b
	if a%b < 0 {
		quotient--
	}
	return quotient
}

// The first tick that begins at an instant or later.
func (lease *Lease) tickFrom(instant int64) int64 {
	return -floorDiv(lease.epoch-instant, lease.tick)
}

var (
	layoutPattern = regexp.MustCompile(`^time:\d+(?: \w+:\d+)* tick:(\d+)(us|ms|s) epoch:(\S+)$`)
	fieldPattern  = regexp.MustCompile(`(\w+):(\d+) `)
	units         = map[string]int64{"us": 1, "ms": 1000, "s": 1_000_000}
)

func (lease *Lease) readLayout(datacenterID int64) error {
	rest := layoutPattern.FindStringSubmatch(lease.layout)
	if rest == nil {
		return fmt.Errorf("a layout has fields, tick and epoch, as snowflake_capacity() returns it: %q", lease.layout)
	}
	length, err := strconv.ParseInt(rest[1], 10, 64)
	if err != nil {
		return err
	}
	lease.tick = length * units[rest[2]]
	epoch, err := time.Parse(time.RFC3339, rest[3])
	if err != nil {
		return err
	}
	lease.epoch = epoch.UnixMicro()
	fields := fieldPattern.FindAllStringSubmatch(lease.layout, -1)
	shift := 0
	lease.bits, lease.shifts = map[string]int{}, map[string]int{}
	for i := len(fields) - 1; i >= 0; i-- { // lane, timeline and tag are 0
		bits, err := strconv.Atoi(fields[i][2])
		if err != nil {
			return err
		}
		lease.bits[fields[i][1]], lease.shifts[fields[i][1]] = bits, shift
		shift += bits
	}
	lease.sequenceBits = lease.bits["sequence"]
	lease.ticks = 1 << lease.bits["time"]
	if datacenterID < 0 || datacenterID>>lease.bits["datacenter"] != 0 {
		return fmt.Errorf("datacenter id %d does not fit the layout", datacenterID)
	}
	lease.datacenter = datacenterID << lease.shifts["datacenter"]
	return nil
}

func max(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}
