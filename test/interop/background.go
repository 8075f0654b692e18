// Runs an app in the background by net/http, and looks for its end.
//
// Its arguments are the URL of Keyrun, an API key, a text, and whether it waits
// (`wait`) or looks as often as `Retry-After` says. It prints how many looks it
// took, and the run.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

type run struct {
	RunID string `json:"runId"`
	State string `json:"state"`
	Text  string `json:"text"`
}

func main() {
	url, value, text, way := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	body, _ := json.Marshal(map[string]string{"text": text})
	started := ask(value, "POST", url+"/api/apps/counted/run", string(body), "respond-async", 202)
	location := started.header.Get("Location")
	now, looks := started.run, 0
	for now.State == "RUN_STATE_RUNNING" {
		looks++
		prefer := "wait=30"
		if way != "wait" {
			seconds, err := strconv.Atoi(started.header.Get("Retry-After"))
			if err != nil {
				log.Fatal(err)
			}
			time.Sleep(time.Duration(seconds) * time.Second)
			prefer = ""
		}
		now = ask(value, "GET", url+location, "", prefer, 200).run
	}
	printed, _ := json.Marshal(map[string]any{"looks": looks, "run": now})
	fmt.Println(string(printed))
}

type answer struct {
	header http.Header
	run    run
}

func ask(value, method, url, body, prefer string, status int) (got answer) {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+value)
	request.Header.Set("Content-Type", "application/json")
	if prefer != "" {
		request.Header.Set("Prefer", prefer)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != status {
		log.Fatal(method, " got ", response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&got.run); err != nil {
		log.Fatal(err)
	}
	got.header = response.Header
	return got
}
