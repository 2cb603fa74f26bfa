package authz

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
)

// savedSnapshot is the content of a snapshot file, after its checksum. Messages
// are marshalled.
type savedSnapshot struct {
	Location Location
	Cursor   Cursor
	Policies []savedPolicy
}

type savedPolicy struct {
	Policy      []byte
	Experiments [][]byte
}

// errCorrupt says that a snapshot file is not what was written.
var errCorrupt = errors.New("the snapshot file is corrupt")

// save writes the present policies to the snapshot file, for a start without the
// store. A failure is logged: it costs nothing until then.
func (s *Sidecar) save() {
	if s.config.SnapshotFile == "" {
		return
	}
	snap := s.current.Load()
	if snap == nil {
		return
	}
	content, err := encodeSnapshot(s.config.Location, snap)
	if err == nil {
		err = replaceFile(s.config.SnapshotFile, content)
	}
	if err != nil {
		s.log.Warn("the snapshot file could not be written", "error", err)
	}
}

// restore makes the snapshot file what requests are decided by, if there is no
// snapshot yet.
func (s *Sidecar) restore(ctx context.Context) {
	if s.config.SnapshotFile == "" || s.current.Load() != nil {
		return
	}
	content, err := os.ReadFile(s.config.SnapshotFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var update Update
	if err == nil {
		update, err = decodeSnapshot(s.config.Location, content)
	}
	if err != nil {
		s.log.Warn("the snapshot file could not be read", "error", err)
		return
	}
	s.log.Warn("deciding by the saved policies until the store answers", "sequence", update.Cursor.Sequence)
	s.apply(ctx, &snapshot{}, update)
}

func encodeSnapshot(location Location, snap *snapshot) ([]byte, error) {
	saved := savedSnapshot{Location: location, Cursor: snap.cursor}
	for _, e := range snap.policies {
		p, err := encodeState(e.state)
		if err != nil {
			return nil, err
		}
		saved.Policies = append(saved.Policies, p)
	}
	var payload bytes.Buffer
	if err := gob.NewEncoder(&payload).Encode(saved); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(payload.Bytes())
	return append(sum[:], payload.Bytes()...), nil
}

func encodeState(state PolicyState) (savedPolicy, error) {
	policy, err := proto.Marshal(state.Policy)
	if err != nil {
		return savedPolicy{}, err
	}
	saved := savedPolicy{Policy: policy}
	for _, e := range state.Experiments {
		experiment, err := proto.Marshal(e)
		if err != nil {
			return savedPolicy{}, err
		}
		saved.Experiments = append(saved.Experiments, experiment)
	}
	return saved, nil
}

// decodeSnapshot reads a snapshot file of the same location.
func decodeSnapshot(location Location, content []byte) (Update, error) {
	if len(content) < sha256.Size {
		return Update{}, errCorrupt
	}
	sum := sha256.Sum256(content[sha256.Size:])
	if !bytes.Equal(sum[:], content[:sha256.Size]) {
		return Update{}, errCorrupt
	}
	var saved savedSnapshot
	if err := gob.NewDecoder(bytes.NewReader(content[sha256.Size:])).Decode(&saved); err != nil {
		return Update{}, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	if saved.Location != location {
		return Update{}, fmt.Errorf("the snapshot file is of %s", saved.Location)
	}
	update := Update{Cursor: saved.Cursor, Policies: make(map[PolicyName]PolicyState)}
	for _, p := range saved.Policies {
		state, err := decodeState(p)
		if err != nil {
			return Update{}, fmt.Errorf("%w: %w", errCorrupt, err)
		}
		update.Policies[PolicyName(state.Policy.Name)] = state
	}
	return update, nil
}

func decodeState(saved savedPolicy) (PolicyState, error) {
	state := PolicyState{Policy: &adminpb.Policy{}}
	if err := proto.Unmarshal(saved.Policy, state.Policy); err != nil {
		return PolicyState{}, err
	}
	for _, bytes := range saved.Experiments {
		e := &adminpb.PolicyExperiment{}
		if err := proto.Unmarshal(bytes, e); err != nil {
			return PolicyState{}, err
		}
		state.Experiments = append(state.Experiments, e)
	}
	return state, nil
}

// replaceFile writes a file so that a crash leaves the old content or the new.
func replaceFile(path string, content []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, filepath.Base(path)+".*")
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
