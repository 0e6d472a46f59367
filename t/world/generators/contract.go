// The commands of t/world/generators.py, for clients/go.
package main

import (
	"bufio"
	"database/sql"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	_ "github.com/lib/pq"
	"snowflake"
)

type generator interface {
	NextID() (int64, error)
	Close() error
}

func write(ids generator, threads, number int, file string) error {
	var group sync.WaitGroup
	all := make([]int64, threads*number)
	failures := make(chan error, threads)
	begin := time.Now()
	for thread := 0; thread < threads; thread++ {
		group.Add(1)
		go func(part []int64) {
			defer group.Done()
			for i := range part {
				id, err := ids.NextID()
				if err != nil {
					failures <- err
					return
				}
				part[i] = id
			}
		}(all[thread*number : (thread+1)*number])
	}
	group.Wait()
	fmt.Printf("%.0f ids per second\n", float64(len(all))/time.Since(begin).Seconds())
	select {
	case err := <-failures:
		return err
	default:
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	return binary.Write(out, binary.BigEndian, all)
}

func main() {
	db, err := sql.Open("postgres", "sslmode=disable")
	if err != nil {
		panic(err)
	}
	var ids generator
	offset := time.Duration(0)
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		words := strings.SplitN(commands.Text(), " ", 5)
		number := func(i int) int { n, _ := strconv.Atoi(words[i]); return n }
		var err error
		switch words[0] {
		case "blocks":
			ids, err = snowflake.NewIDs(db, number(1), time.Duration(number(2))*time.Millisecond)
		case "lease":
			ids, err = snowflake.NewLease(db, words[1], words[4], int64(number(2)), time.Duration(number(3))*time.Millisecond,
				func() time.Time { return time.Now().Add(offset) })
		case "next":
			for i := 0; i < number(1) && err == nil; i++ {
				var id int64
				if id, err = ids.NextID(); err == nil {
					fmt.Println(id)
				}
			}
		case "write":
			err = write(ids, number(1), number(2), words[3])
		case "clock":
			offset = time.Duration(number(1)) * time.Millisecond
		case "close":
			err = ids.Close()
		}
		if err != nil {
			fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("ok")
		}
	}
}
