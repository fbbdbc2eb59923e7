// An emulator of GCS for the tests: fake-gcs-server, with the two requests of the XML dialect by
// which delta-rs writes and lists. A put by an object's path becomes the upload that the emulator has,
// with the condition which generation it may replace, and the answer in headers; a listing leaves out
// what does not come after `start-after`.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

func main() {
	address, bucket := os.Args[1], os.Args[2]
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		NoListener:  true,
		PublicHost:  address,
		ExternalURL: "http://" + address,
	})
	if err == nil {
		server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: bucket})
		err = http.ListenAndServe(address, both(server.HTTPHandler(), address))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func both(emulator http.Handler, address string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bucket, name, isObject := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		// Whoever asks through a gate names the gate's address.
		r.Host = address
		switch {
		case r.Method == http.MethodPut && isObject && bucket != "upload":
			put(w, r, emulator, bucket, name)
		case r.Method == http.MethodGet && r.URL.Query().Has("start-after"):
			list(w, r, emulator)
		default:
			emulator.ServeHTTP(w, r)
		}
	})
}

func put(w http.ResponseWriter, r *http.Request, emulator http.Handler, bucket, name string) {
	query := r.URL.Query()
	query.Set("uploadType", "media")
	query.Set("name", name)
	if generation := r.Header.Get("x-goog-if-generation-match"); generation != "" {
		query.Set("ifGenerationMatch", generation)
	}
	upload := r.Clone(r.Context())
	upload.Method = http.MethodPost
	upload.URL.Path, upload.URL.RawPath = "/upload/storage/v1/b/"+bucket+"/o", ""
	upload.URL.RawQuery = query.Encode()
	answer := httptest.NewRecorder()
	emulator.ServeHTTP(answer, upload)
	var object struct{ Etag, Generation string }
	if answer.Code == http.StatusOK && json.Unmarshal(answer.Body.Bytes(), &object) == nil {
		w.Header().Set("ETag", fmt.Sprintf("%q", object.Etag))
		w.Header().Set("x-goog-generation", object.Generation)
	}
	w.WriteHeader(answer.Code)
}

var (
	contents = regexp.MustCompile(`<Contents>.*?</Contents>`)
	key      = regexp.MustCompile(`<Key>(.*?)</Key>`)
)

func list(w http.ResponseWriter, r *http.Request, emulator http.Handler) {
	answer := httptest.NewRecorder()
	emulator.ServeHTTP(answer, r)
	after := []byte(r.URL.Query().Get("start-after"))
	w.WriteHeader(answer.Code)
	w.Write(contents.ReplaceAllFunc(answer.Body.Bytes(), func(one []byte) []byte {
		if bytes.Compare(key.FindSubmatch(one)[1], after) > 0 {
			return one
		}
		return nil
	}))
}
