package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
)

// newHTTPSenders makes n senders of the same requests as plain HTTP/1.1, each on a
// connection of its own, which it keeps for all requests. closeAll closes the
// connections.
//
// net/http.Client is not used: its connection pool and its two goroutines for each
// connection take more processor time than Envoy needs for the request.
func newHTTPSenders(address string, t *traffic, n int) (senders []sender, closeAll func(), err error) {
	var connections []net.Conn
	closeAll = func() {
		for _, c := range connections {
			_ = c.Close()
		}
	}
	for range n {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		connections = append(connections, conn)
		senders = append(senders, newHTTPSender(conn, t.newStream(seeds.Add(1))))
	}
	return senders, closeAll, nil
}

// newHTTPSender sends on one connection: one request, then its answer. 200 is an allow
// and any other status below 500 a denial; from 500 on nobody decided, such as when the
// filter timed out, and that is an error. A sender is for one goroutine.
func newHTTPSender(conn net.Conn, s *stream) sender {
	var request []byte
	answers := bufio.NewReader(conn)
	return func(context.Context) (bool, error) {
		request = s.nextHTTP(request[:0])
		if _, err := conn.Write(request); err != nil {
			return false, err
		}
		response, err := http.ReadResponse(answers, nil)
		if err != nil {
			return false, err
		}
		// The body has to be read to its end, or the next answer would begin in the
		// middle of it.
		_, err = io.Copy(io.Discard, response.Body)
		if err = errors.Join(err, response.Body.Close()); err == nil && response.StatusCode >= http.StatusInternalServerError {
			err = fmt.Errorf("status %s of Envoy", response.Status)
		}
		return response.StatusCode == http.StatusOK, err
	}
}

// nextHTTP appends the next request as a client of Envoy sends it, to dst. What Envoy
// adds, such as the request ID, is not in it.
func (s *stream) nextHTTP(dst []byte) []byte {
	_, p, number := s.pick()
	dst = append(dst, p.method+" "+p.prefix...)
	dst = append(append(dst, number...), " HTTP/1.1\r\nhost: "+host+"\r\nauthorization: "...)
	dst = append(dst, s.token...)
	dst = append(dst, "\r\naccept: application/json, text/plain, */*\r\naccept-encoding: gzip, deflate, br\r\naccept-language: en-GB,en;q=0.9\r\n"+
		"user-agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n"...)
	if p.body != "" {
		dst = append(dst, "content-type: application/json\r\ncontent-length: "...)
		dst = append(strconv.AppendInt(dst, int64(len(p.body)), 10), "\r\n"...)
	}
	return append(append(dst, "\r\n"...), p.body...)
}
