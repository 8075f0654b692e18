//go:build tools

// Package tools names the programs that the tests build from this module, so that `go mod tidy` keeps what they need.
package tools

import (
	_ "github.com/mongodb/mongo-tools/mongodump/main"
	_ "github.com/mongodb/mongo-tools/mongorestore/main"
)
