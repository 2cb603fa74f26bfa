package sidecar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"understudy/authz"
)

// save writes the present policies to the snapshot file, for a start without the
// store. A failure is logged: it costs nothing until then.
func (s *Sidecar) save() {
	s.store.saving.Lock()
	defer s.store.saving.Unlock()
	snap, known := s.current.Load(), s.store.watermarks().known
	if s.config.SnapshotFile == "" || snap == nil {
		return
	}
	content, err := encodeSnapshot(s.config.Scope, snap, known)
	if err == nil {
		err = replaceFile(s.config.SnapshotFile, content)
	}
	s.store.savedWatermark(known)
	s.metrics.saved(err)
	if err != nil {
		s.log.Warn("the snapshot file could not be written: a start without the store would use an older one, or none; "+
			"see to the folder's permissions and room", "file", s.config.SnapshotFile, "error", err)
	}
}

// restore makes the snapshot file what requests are decided by, if there is no
// snapshot yet.
func (s *Sidecar) restore(ctx context.Context) {
	if s.current.Load() != nil {
		return
	}
	update, written, ok := s.readSaved()
	if !ok {
		return
	}
	s.log.Warn("deciding by the saved policies until the store answers",
		"sequence", update.Cursor.Sequence, "written", written)
	s.store.standIn(written)
	s.apply(ctx, &snapshot{}, update)
}

// readSaved reads what the snapshot file has of the policies that are followed. A file that cannot
// be used is as good as none, but for the log.
func (s *Sidecar) readSaved() (update authz.Update, written time.Time, ok bool) {
	if s.config.SnapshotFile == "" {
		return authz.Update{}, time.Time{}, false
	}
	update, written, err := ReadSnapshot(s.config.Location, s.config.SnapshotFile)
	if err == nil && !update.Selection.Covers(s.config.Policies) {
		err = fmt.Errorf("it is of a sidecar that followed other policies (--policies %s), and may lack some of these", strings.Join(update.Selection, ","))
	}
	maps.DeleteFunc(update.Policies, func(name authz.PolicyName, _ authz.PolicyState) bool { return !s.config.Policies.Has(name.ID()) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("the snapshot file could not be read", "file", s.config.SnapshotFile, "error", err)
	}
	s.store.sawWatermark(update.Watermark)
	s.askForHeartbeat() // a server of the admin API that started with this sidecar goes by it
	return update, written, err == nil
}

// ReadSnapshot returns what the snapshot file of a sidecar of the location holds, and
// when it was written. A policy that the store had as deleted is there with its sequence. The error
// wraps fs.ErrNotExist if there is no file.
func ReadSnapshot(location authz.Location, path string) (authz.Update, time.Time, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return authz.Update{}, time.Time{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return authz.Update{}, time.Time{}, err
	}
	update, err := decodeUpdate(location, content)
	return update, info.ModTime(), err
}

// replaceFile writes a file that only this user may read, so that a crash leaves
// the old content or the new.
func replaceFile(path string, content []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, filepath.Base(path)+tempMark+"*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = temp.Write(content)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}

// tempMark stands in the name of a temporary file between that of its file and a number.
// No ID of a location or a policy has it, so that no other snapshot file is named so.
const tempMark = "~"

// tempKept is how long a temporary file may be in the making. A process that is held up
// for longer finds its file gone, reports that it could not write, and writes anew with
// the next change.
const tempKept = time.Minute

// removeTemps removes temporary files that processes which were killed have left, and
// none that another one may be writing.
func (s *Sidecar) removeTemps() {
	if s.config.SnapshotFile == "" {
		return
	}
	dir, base := filepath.Split(s.config.SnapshotFile)
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return // save reports a folder that cannot be used
	}
	for _, entry := range entries {
		number, ours := strings.CutPrefix(entry.Name(), base+tempMark)
		if _, err := strconv.ParseUint(number, 10, 64); !ours || err != nil {
			continue
		}
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < tempKept {
			continue
		}
		if err := os.Remove(filepath.Join(dir, entry.Name())); err == nil {
			s.log.Info("removed a temporary file that was left behind", "file", entry.Name())
		}
	}
}
