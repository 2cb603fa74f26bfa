package boltstore

import (
	"bytes"

	"go.etcd.io/bbolt"

	"understudy/admin"
)

// Raw returns an entry of a bucket of a project as it is.
func (s *Store) Raw(project, bucket string, key []byte) (value []byte, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		value = bytes.Clone(tx.Bucket([]byte("projects/" + project)).Bucket([]byte(bucket)).Get(key))
		return nil
	})
	return value, err
}

// PutRaw writes an entry of a bucket of a project as it is.
func (s *Store) PutRaw(project, bucket string, key, value []byte) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("projects/"+project)).Bucket([]byte(bucket)).Put(key, value)
	})
}

// RawEvidence changes the entries of an experiment's evidence as they are.
func (s *Store) RawEvidence(name admin.EvidenceName, change func(*bbolt.Bucket) error) error {
	return s.db.Update(func(tx *bbolt.Tx) error { return change(openEvidence(tx, name)) })
}

// Damaged returns how many records of a project are damaged, whatever they are of.
func (s *Store) Damaged(project string) (n int, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		p := openProject(tx, project)
		return p.records.ForEach(func(key, value []byte) error {
			if decodeRecord(key, value, p.unsummed).Damage != nil {
				n++
			}
			return nil
		})
	})
	return n, err
}

// PutUnsummed makes a record what an earlier version would have written.
func (s *Store) PutUnsummed(project string, key, value []byte) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		root := tx.Bucket([]byte("projects/" + project))
		if err := root.Delete(keyFormat); err != nil {
			return err
		}
		return root.Bucket(bucketRecords).Put(key, append(make([]byte, recordHeader), value...))
	})
}
