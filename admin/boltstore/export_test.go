package boltstore

import (
	"bytes"

	"go.etcd.io/bbolt"
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
