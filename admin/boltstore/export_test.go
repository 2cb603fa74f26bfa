package boltstore

import "go.etcd.io/bbolt"

// PutRaw writes an entry of a bucket of a project as it is.
func (s *Store) PutRaw(project, bucket string, key, value []byte) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("projects/"+project)).Bucket([]byte(bucket)).Put(key, value)
	})
}
