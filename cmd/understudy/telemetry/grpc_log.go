package telemetry

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/grpclog"
)

// grpcLog is where the log lines of grpc-go and grpc-gateway go, both of which have one
// logger for the process. Nil, as in the commands of the admin API, drops them.
var grpcLog atomic.Pointer[slog.Logger]

// LogGRPC makes the log lines of gRPC go to log; nil drops them.
func LogGRPC(log *slog.Logger) {
	if log != nil {
		log = newSecrets().logger(log)
	}
	grpcLog.Store(log)
}

// gRPC wants its logger before anything of it runs.
func init() { grpclog.SetLoggerV2(grpcLines{}) }

// grpcLines implements grpclog.LoggerV2. Every line is one at DEBUG, whatever gRPC calls
// it, and so are those of net/http: they are about what came unasked on a connection, and
// quote it.
type grpcLines struct{}

// line logs one line, if there is a logger.
func (grpcLines) line(severity, text string) {
	if log := grpcLog.Load(); log != nil {
		log.Debug("gRPC", "severity", severity, "line", strings.TrimSpace(text))
	}
}

// The methods of grpclog.LoggerV2.
func (g grpcLines) Info(args ...any)                 { g.line("INFO", fmt.Sprint(args...)) }
func (g grpcLines) Infoln(args ...any)               { g.line("INFO", fmt.Sprintln(args...)) }
func (g grpcLines) Infof(format string, args ...any) { g.line("INFO", fmt.Sprintf(format, args...)) }

func (g grpcLines) Warning(args ...any)   { g.line("WARNING", fmt.Sprint(args...)) }
func (g grpcLines) Warningln(args ...any) { g.line("WARNING", fmt.Sprintln(args...)) }
func (g grpcLines) Warningf(format string, args ...any) {
	g.line("WARNING", fmt.Sprintf(format, args...))
}

func (g grpcLines) Error(args ...any)                 { g.line("ERROR", fmt.Sprint(args...)) }
func (g grpcLines) Errorln(args ...any)               { g.line("ERROR", fmt.Sprintln(args...)) }
func (g grpcLines) Errorf(format string, args ...any) { g.line("ERROR", fmt.Sprintf(format, args...)) }

// Fatal ends the process, as grpclog asks of it.
func (g grpcLines) Fatal(args ...any)   { g.line("FATAL", fmt.Sprint(args...)); os.Exit(1) }
func (g grpcLines) Fatalln(args ...any) { g.line("FATAL", fmt.Sprintln(args...)); os.Exit(1) }
func (g grpcLines) Fatalf(format string, args ...any) {
	g.line("FATAL", fmt.Sprintf(format, args...))
	os.Exit(1)
}

// V says no to all that is more than usual.
func (grpcLines) V(level int) bool { return level <= 0 }
