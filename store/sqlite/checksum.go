package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// SQLite has no checksums in its file: a changed byte is another value, or hides rows. So each page of a
// store ends with its checksum, in bytes that SQLite leaves to applications (the reserved space of its file
// format; any SQLite tool can read such a file). The checksum is written when a page is written to the file,
// and checked when one is read from it, by SQLite's own VFS with two of its functions replaced. Pages in the
// log are covered by the log's checksums when the store is opened.
const (
	pageSize = 4096
	reserved = 8 // bytes at the end of a page: a mark, and the checksum
	pageMark = 0x726f7573

	vfsName = "rouse"
)

var pageTable = crc32.MakeTable(crc32.Castagnoli)

// pageSum is the checksum of a page at an offset of the file.
func pageSum(page []byte, offset int64) uint32 {
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(offset))
	return crc32.Update(crc32.Checksum(at[:], pageTable), pageTable, page[:pageSize-reserved])
}

func sealPage(page []byte, offset int64) {
	end := page[pageSize-reserved:]
	binary.BigEndian.PutUint32(end, pageMark)
	binary.BigEndian.PutUint32(end[4:], pageSum(page, offset))
}

func isSealed(page []byte, offset int64) bool {
	end := page[pageSize-reserved:]
	return binary.BigEndian.Uint32(end) == pageMark && binary.BigEndian.Uint32(end[4:]) == pageSum(page, offset)
}

// system is SQLite's VFS and its replaced functions. It is set up once, before the first file is opened, and
// stays. The tables that SQLite reads are in its own memory, because C code must not do address arithmetic on
// Go memory.
var system struct {
	once    sync.Once
	err     error
	machine uintptr      // the operating system's VFS
	open    openFile     // its open
	damaged atomic.Int64 // offset of the last page found damaged

	mu     sync.Mutex
	tables atomic.Pointer[[]pageMethods] // a few; replaced when one is added, under mu
}

// The functions that are replaced, with SQLite's signatures. Pointers are those of its C code.
type (
	openFile = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	transfer = func(tls *libc.TLS, file, buffer uintptr, amount int32, offset int64) int32
)

// pageMethods are the methods of a kind of file, with read and write replaced.
type pageMethods struct {
	of, table   uintptr  // the original table, and its replacement
	read, write transfer // the original methods
}

// registerVFS registers the VFS that checks pages with SQLite, as vfsName.
func registerVFS() error {
	system.once.Do(func() {
		tls := libc.NewTLS()
		defer tls.Close()
		if rc := sqlite3.Xsqlite3_initialize(tls); rc != sqlite3.SQLITE_OK {
			system.err = fmt.Errorf("SQLite does not start: code %d", rc)
			return
		}
		system.machine = sqlite3.Xsqlite3_vfs_find(tls, 0)
		name, err := libc.CString(vfsName)
		own := copyToC[sqlite3.Tsqlite3_vfs](tls, system.machine)
		if err != nil || own == 0 {
			system.err = errNoMemory
			return
		}
		vfs := (*sqlite3.Tsqlite3_vfs)(pointerAt(own))
		system.open = functionAt[openFile](vfs.FxOpen)
		vfs.FxOpen, vfs.FzName = addressOfFunc[openFile](openPages), name
		if rc := sqlite3.Xsqlite3_vfs_register(tls, own, 0); rc != sqlite3.SQLITE_OK {
			system.err = fmt.Errorf("SQLite takes no access to files: code %d", rc)
		}
	})
	return system.err
}

var errNoMemory = errors.New("SQLite has no memory left")

// copyToC copies a value of the C code into memory of the C code, which is never freed; 0 if no memory is
// left.
func copyToC[T any](tls *libc.TLS, from uintptr) uintptr {
	to := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(*new(T))))
	if to != 0 {
		*(*T)(pointerAt(to)) = *(*T)(pointerAt(from))
	}
	return to
}

// openPages opens a file like the original VFS. A database file gets methods that check pages.
func openPages(tls *libc.TLS, _, name, file uintptr, flags int32, outFlags uintptr) int32 {
	rc := system.open(tls, system.machine, name, file, flags, outFlags)
	if rc != sqlite3.SQLITE_OK || flags&sqlite3.SQLITE_OPEN_MAIN_DB == 0 {
		return rc
	}
	methods := (*uintptr)(pointerAt(file)) // the first field of a file
	table := tableOf(tls, *methods)
	if table == 0 {
		return sqlite3.SQLITE_NOMEM
	}
	*methods = table
	return rc
}

// tableOf returns the replacement for an original table; 0 if no memory is left.
func tableOf(tls *libc.TLS, of uintptr) uintptr {
	system.mu.Lock()
	defer system.mu.Unlock()
	var known []pageMethods
	if list := system.tables.Load(); list != nil {
		known = *list
	}
	for _, m := range known {
		if m.of == of {
			return m.table
		}
	}
	m := pageMethods{of: of, table: copyToC[sqlite3.Tsqlite3_io_methods](tls, of)}
	if m.table == 0 {
		return 0
	}
	t := (*sqlite3.Tsqlite3_io_methods)(pointerAt(m.table))
	m.read, m.write = functionAt[transfer](t.FxRead), functionAt[transfer](t.FxWrite)
	t.FxRead, t.FxWrite = addressOfFunc[transfer](readSealedPage), addressOfFunc[transfer](writePage)
	known = append(slices.Clip(known), m)
	system.tables.Store(&known)
	return m.table
}

// methodsOf returns the methods of a file opened by openPages.
func methodsOf(file uintptr) *pageMethods {
	table, list := *(*uintptr)(pointerAt(file)), *system.tables.Load()
	for i := range list {
		if list[i].table == table {
			return &list[i]
		}
	}
	return nil // impossible: only openPages sets such a table
}

// wholePage returns the page that is read or written; nil if it is only a part of one.
func wholePage(buffer uintptr, amount int32, offset int64) []byte {
	if amount != pageSize || offset%pageSize != 0 {
		return nil
	}
	return unsafe.Slice((*byte)(pointerAt(buffer)), pageSize)
}

func readSealedPage(tls *libc.TLS, file, buffer uintptr, amount int32, offset int64) int32 {
	rc := methodsOf(file).read(tls, file, buffer, amount, offset)
	p := wholePage(buffer, amount, offset)
	// SQLite treats missing bytes at the end of a file as zeros, which hide rows. It does not read pages that
	// it adds.
	cut := rc == sqlite3.SQLITE_IOERR_SHORT_READ
	if p != nil && (cut || rc == sqlite3.SQLITE_OK && !isSealed(p, offset)) {
		system.damaged.Store(offset)
		return sqlite3.SQLITE_IOERR_DATA
	}
	return rc
}

func writePage(tls *libc.TLS, file, buffer uintptr, amount int32, offset int64) int32 {
	if p := wholePage(buffer, amount, offset); p != nil {
		sealPage(p, offset)
	}
	return methodsOf(file).write(tls, file, buffer, amount, offset)
}

// Pointers of the C code are numbers here, and its functions are pointers to function values.
func pointerAt(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }
func addressOfFunc[F any](f F) uintptr         { return *(*uintptr)(unsafe.Pointer(&f)) }
func functionAt[F any](address uintptr) (f F)  { return *(*F)(unsafe.Pointer(&address)) }

// emptyFile returns a database of one page, without tables, whose pages end with a checksum.
func emptyFile() []byte {
	b := make([]byte, pageSize)
	copy(b, "SQLite format 3\x00")
	binary.BigEndian.PutUint16(b[16:], pageSize)
	b[18], b[19] = 1, 1 // it has no log yet
	b[20] = reserved
	b[21], b[22], b[23] = 64, 32, 32      // fixed by the format
	binary.BigEndian.PutUint32(b[28:], 1) // pages
	binary.BigEndian.PutUint32(b[44:], 4) // the format of the schema
	binary.BigEndian.PutUint32(b[56:], 1) // UTF-8
	b[100] = 13                           // the table of tables: a leaf, empty
	binary.BigEndian.PutUint16(b[105:], pageSize-reserved)
	sealPage(b, 0)
	return b
}
