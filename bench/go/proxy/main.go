// A gateway with Go's own reverse proxy that does what Keyrun does for a run: it proves the key with
// an HMAC, counts in an exact sliding log, bounds the body, sets the deadline, and sends the headers
// of the limit. It prints its address, and ends when its standard input does.
//
//	proxy <url of the app> <key> …
package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	limit      = 100_000
	window     = time.Minute
	runTimeout = 30 * time.Second
	bodyMax    = 1 << 20
)

var runPath = regexp.MustCompile(`^/api/apps/[a-z][a-z0-9-]{0,62}/run$`)

type account struct {
	digest []byte
	log    *slidingLog
}

type gateway struct {
	secret   []byte
	accounts map[string]*account
	proxy    http.Handler
}

func main() {
	app, err := url.Parse(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	g := &gateway{secret: make([]byte, 32), accounts: map[string]*account{}, proxy: proxyTo(app)}
	rand.Read(g.secret)
	for _, key := range os.Args[2:] {
		g.accounts[idOf(key)] = &account{digest: g.hmac(key), log: newSlidingLog(limit, window)}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	log.Fatal(http.Serve(listener, g))
}

func proxyTo(app *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL = app
			r.Out.Host = ""
			r.Out.Header.Del("Authorization")
			r.Out.Header.Set("X-Keyrun-Deadline-Ms", strconv.FormatInt(runTimeout.Milliseconds(), 10))
		},
		Transport: &http.Transport{MaxIdleConns: 0, MaxIdleConnsPerHost: 256, DisableCompression: true},
	}
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	requestID := r.Header.Get("X-Request-Id")
	if requestID == "" {
		requestID = rand.Text()
		r.Header.Set("X-Request-Id", requestID)
	}
	headers := w.Header()
	headers.Set("X-Request-Id", requestID)
	headers.Set("Cache-Control", "no-store")
	if r.Method != http.MethodPost || !runPath.MatchString(r.URL.Path) {
		http.NotFound(w, r)
		return
	}
	account := g.find(r.Header.Get("Authorization"))
	if account == nil {
		http.Error(w, "invalid", http.StatusUnauthorized)
		return
	}
	decision := account.log.spend(time.Now())
	setLimitHeaders(headers, decision)
	if !decision.accepted {
		http.Error(w, "limit", http.StatusTooManyRequests)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), runTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	r.Body = http.MaxBytesReader(w, r.Body, bodyMax)
	g.proxy.ServeHTTP(w, r)
}

// find returns the account of the key in the header, or nil.
func (g *gateway) find(authorization string) *account {
	key, isBearer := strings.CutPrefix(authorization, "Bearer ")
	if !isBearer {
		return nil
	}
	found := g.accounts[idOf(key)]
	if found == nil || !hmac.Equal(found.digest, g.hmac(key)) {
		return nil
	}
	return found
}

func idOf(key string) string {
	id, _, _ := strings.Cut(key, ".")
	return id
}

func (g *gateway) hmac(key string) []byte {
	mac := hmac.New(sha256.New, g.secret)
	mac.Write([]byte(key))
	return mac.Sum(nil)
}

func setLimitHeaders(headers http.Header, d decision) {
	remaining := strconv.Itoa(d.remaining)
	seconds := int64(math.Ceil(d.reset.Seconds()))
	headers.Set("RateLimit-Limit", strconv.Itoa(limit))
	headers.Set("RateLimit-Remaining", remaining)
	headers.Set("RateLimit-Reset", strconv.FormatInt(time.Now().Unix()+seconds, 10))
	headers.Set("RateLimit", `"team";r=`+remaining+`;t=`+strconv.FormatInt(seconds, 10))
	headers.Set("RateLimit-Policy", `"team";q=`+strconv.Itoa(limit)+`;w=60`)
	if !d.accepted {
		headers.Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
}
