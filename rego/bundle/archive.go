package bundle

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

const (
	// maxBundleSize bounds all files of a bundle together, unpacked, in bytes. A
	// policy has a smaller bound of its own; a bundle may carry other things too.
	maxBundleSize = 64 << 20
	// maxBundleFiles bounds the entries of a bundle, of whatever kind.
	maxBundleFiles = 10_000
)

// Error is the error of a bundle that is refused. It is the importer's to correct; an
// error of the reader is not an Error.
type Error struct {
	// File is the file with the fault; empty if no single one is.
	File string
	// Message says what is wrong and how to fix it.
	Message string
}

func (e *Error) Error() string {
	if e.File == "" {
		return e.Message
	}
	return e.File + ": " + e.Message
}

func refuse(file, format string, args ...any) error {
	return &Error{file, fmt.Sprintf(format, args...)}
}

var errTooLarge = refuse("", "The bundle has more than %d MiB unpacked. Leave out what is no policy.", maxBundleSize>>20)

// files are the files of a bundle :: path without a leading slash → content.
type files map[string][]byte

// add takes a file whose name is not taken yet. Tar allows two entries of one name, and
// tools differ in which one they take: a reviewer could read one file and the server
// enforce the other.
func (f files) add(name string, content []byte) error {
	if _, taken := f[name]; taken {
		return refuse(name, "The bundle has two files of this name.")
	}
	f[name] = content
	return nil
}

// readArchive reads a tar archive, compressed by gzip or not, within bounds. Everything
// stays in memory and nothing is written anywhere, so that no entry can name a place on
// disk. The bounds hold for what comes out of gzip, so that a small file which unpacks
// to gigabytes ends early.
func readArchive(r io.Reader) (files, error) {
	unpacked, err := unpack(r)
	if err != nil {
		return nil, err
	}
	// The bound is around the unpacked stream: what a small gzip file unpacks to is
	// counted.
	within := &bounded{from: unpacked, left: maxBundleSize}
	archive, out := tar.NewReader(within), make(files)
	for entries := 0; ; entries++ {
		header, err := archive.Next()
		switch {
		case err == io.EOF && entries > 0:
			return out, nil
		case err == io.EOF:
			return nil, refuse("", "The bundle is empty.")
		case err != nil:
			return nil, unreadable(err)
		case entries >= maxBundleFiles:
			return nil, refuse("", "The bundle has more than %d files.", maxBundleFiles)
		}
		if err := out.take(header, archive); err != nil {
			return nil, err
		}
	}
}

// take reads one entry of an archive. Folders and the like are passed over. A link
// where a policy or data file is expected is refused instead, since leaving it out
// would leave out rules.
func (f files) take(header *tar.Header, from io.Reader) error {
	name := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
	if header.Name != "" && climbs(header.Name) {
		return refuse(header.Name, "The name leads out of the bundle.")
	}
	switch header.Typeflag {
	case tar.TypeReg:
		content, err := io.ReadAll(from)
		if err != nil {
			return unreadable(err)
		}
		return f.add(name, content)
	case tar.TypeSymlink, tar.TypeLink:
		if kindOfFile(name) != otherFile {
			return refuse(name, "It is a link; put the file itself into the bundle.")
		}
	}
	return nil
}

// climbs reports whether a name has a segment that leads upwards. Backslashes count as
// slashes, for archives made on Windows.
func climbs(name string) bool {
	for segment := range strings.SplitSeq(strings.ReplaceAll(name, `\`, "/"), "/") {
		if segment == ".." {
			return true
		}
	}
	return false
}

// unpack takes the compression away, if there is one. It looks at the first two bytes
// (RFC 1952, section 2.3.1), not at a name, which a stream does not have.
func unpack(r io.Reader) (io.Reader, error) {
	packed := bufio.NewReader(&bounded{from: r, left: maxBundleSize})
	magic, err := packed.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, unreadable(err)
	}
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return packed, nil
	}
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		return nil, unreadable(err)
	}
	return unpacked, nil
}

// unreadable is the error of an archive that is none, or a truncated one.
func unreadable(err error) error {
	var refused *Error
	if errors.As(err, &refused) {
		return err
	}
	return fmt.Errorf("it is no bundle, which is a tar.gz as `opa build` makes it, nor is it a folder with Rego or a .rego file: %w", err)
}

// bounded reads no more than so many bytes, and fails where io.LimitReader would
// pretend that there are none left.
type bounded struct {
	from io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.from.Read(p)
	b.left -= int64(n)
	return n, err
}

// readFolder reads a folder within the same bounds. Hidden folders are passed
// over, and so are hidden files that mean nothing in a bundle. A link is followed
// as far as fsys allows; os.Root allows none that leads out of the folder.
func readFolder(fsys fs.FS) (files, error) {
	out, entries := make(files), 0
	left := int64(maxBundleSize)
	// A signature vouches for every file.
	_, err := fs.Stat(fsys, ".signatures.json")
	signed := err == nil
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if entries++; entries > maxBundleFiles {
			return refuse("", "The folder has more than %d files.", maxBundleFiles)
		}
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || kindOfFile(name) == otherFile && !signed:
			return nil
		}
		content, err := readRegular(fsys, name, left)
		left -= int64(len(content))
		if err != nil {
			return err
		}
		return out.add(name, content)
	})
	return out, err
}

// readRegular reads a file or what a link leads to, if that is a file.
func readRegular(fsys fs.FS, name string, left int64) ([]byte, error) {
	// Looked at before it is opened: to open a pipe waits for who writes into it.
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, refuse(name, "It is no plain file.")
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(&bounded{from: f, left: left})
}
