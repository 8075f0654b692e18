// Command ferretdb is the MongoDB server of the tests where no mongod is installed: FerretDB on its SQLite
// backend, embedded, behind a gate.
//
// FerretDB's updates are not atomic between connections: two at once may both read the old document. The gate
// hands it one wire message at a time, of all connections, and the next one only after the answer, so that a
// single-document update is atomic as it is in MongoDB. The gate also gives each collection the index on ids that
// FerretDB means to give it: its own is on another expression than its queries, so that SQLite would read every
// document to find one by its id. It prints its URI on a line of its own once it serves,
// and ends with its standard input, so that it can't outlive the test run that started it.
package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
	_ "modernc.org/sqlite"
)

// messageBytesMax is the largest message that MongoDB's protocol allows.
const messageBytesMax = 48_000_000

// moreToCome is the flag of an OP_MSG that asks for no answer.
const (
	opMsg      = 2013
	moreToCome = 1 << 1
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "the address to listen on; port 0 picks a free one")
	dataDir := flag.String("data-dir", "", "the folder for the data, which must exist")
	flag.Parse()
	if *dataDir == "" {
		log.Fatal("name the folder for the data with -data-dir")
	}
	if err := serve(*listen, *dataDir); err != nil {
		log.Fatal(err)
	}
}

// serve runs until standard input ends.
func serve(listen, dataDir string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	socket := filepath.Join(dataDir, "ferretdb.sock")
	if err := os.RemoveAll(socket); err != nil {
		return err
	}
	server, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{Unix: socket},
		Logger:    slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Handler:   "sqlite",
		SQLiteURL: "file:" + dataDir + "/",
	})
	if err != nil {
		return err
	}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Run(ctx) }()
	_ = server.MongoDBURI() // Waits until the socket is there.

	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	gate := &gate{socket: socket, dataDir: dataDir}
	go gate.accept(listener)
	fmt.Printf("mongodb://%s/\n", listener.Addr())

	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	stop()
	return <-stopped
}

// gate lets one message at a time through to the server behind the socket.
type gate struct {
	socket  string
	dataDir string
	turn    sync.Mutex
}

func (g *gate) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer client.Close()
			if err := g.relay(client); err != nil && !isGone(err) {
				log.Printf("a connection ended: %v", err)
			}
		}()
	}
}

// isGone tells whether the client just went away, as those of the tests often do.
func isGone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// relay serves one client's connection with one of its own to the server.
func (g *gate) relay(client net.Conn) error {
	server, err := net.Dial("unix", g.socket)
	if err != nil {
		return err
	}
	defer server.Close()
	for {
		request, err := readMessage(client)
		if err != nil {
			return err
		}
		answer, err := g.exchange(server, request)
		if err != nil {
			return err
		}
		if _, err := client.Write(answer); err != nil {
			return err
		}
	}
}

// exchange sends one message and waits for its answer, alone; no answer to a message that asks for none. FerretDB
// answers some of those nevertheless, as it does endSessions: such an answer is dropped before the next one.
func (g *gate) exchange(server net.Conn, request []byte) ([]byte, error) {
	g.turn.Lock()
	defer g.turn.Unlock()
	if _, err := server.Write(request); err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint32(request[12:]) == opMsg && len(request) >= 20 &&
		binary.LittleEndian.Uint32(request[16:])&moreToCome != 0 {
		return nil, nil
	}
	answer, err := readMessage(server)
	for err == nil && !bytes.Equal(answer[8:12], request[4:8]) {
		answer, err = readMessage(server)
	}
	if err == nil && bytes.Contains(request, []byte("\x02createIndexes\x00")) {
		err = g.indexIds(databaseOf(request))
	}
	return answer, err
}

// indexIds gives the collections of the database an index on ids, in the words of FerretDB's queries.
func (g *gate) indexIds(database string) error {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(g.dataDir, database+".sqlite")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.Query("SELECT table_name FROM _ferretdb_collections")
	if err != nil {
		return err
	}
	defer rows.Close()
	var tables []string
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			return err
		}
		tables = append(tables, table)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, table := range tables {
		index := fmt.Sprintf("CREATE INDEX IF NOT EXISTS %q ON %q (_ferretdb_sjson->'$._id')", table+"_by_id", table)
		if _, err := db.Exec(index); err != nil {
			return err
		}
	}
	return nil
}

// databaseOf finds the name of the database in a command: the text "$db", its length, and the name.
func databaseOf(request []byte) string {
	_, after, found := bytes.Cut(request, []byte("\x02$db\x00"))
	if !found || len(after) < 4 {
		return ""
	}
	name, _, _ := bytes.Cut(after[4:], []byte{0})
	return string(name)
}

// readMessage reads a whole message: a length of four bytes that counts itself, and what follows.
func readMessage(from io.Reader) ([]byte, error) {
	var header [16]byte
	if _, err := io.ReadFull(from, header[:]); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint32(header[:])
	if length < uint32(len(header)) || length > messageBytesMax {
		return nil, fmt.Errorf("a message of %d bytes", length)
	}
	message := make([]byte, length)
	copy(message, header[:])
	_, err := io.ReadFull(from, message[len(header):])
	return message, err
}
