package sqlite

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// SQLite has no checksums in its file: a changed byte is another value, or hides rows. So each page of a store ends with its checksum,
// in bytes that SQLite leaves to applications (the reserved space of its file format; any SQLite tool can read such a file). It is
// written when a page is written to the file, and checked when one is read from it, by SQLite's own access to files with two of its
// functions replaced. Pages in the log are covered by the log's checksums when the store is opened.
const (
	pageSize = 4096
	reserved = 8 // bytes at the end of a page: a mark, and the checksum
	pageMark = 0x726f7573

	vfsName = "rouse"
)

var pageTable = crc32.MakeTable(crc32.Castagnoli)

// pageSum is the checksum of a page that lies at an offset of the file.
func pageSum(page []byte, offset int64) uint32 {
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(offset))
	return crc32.Update(crc32.Checksum(at[:], pageTable), pageTable, page[:pageSize-reserved])
}

func seal(page []byte, offset int64) {
	end := page[pageSize-reserved:]
	binary.BigEndian.PutUint32(end, pageMark)
	binary.BigEndian.PutUint32(end[4:], pageSum(page, offset))
}

func sealed(page []byte, offset int64) bool {
	end := page[pageSize-reserved:]
	return binary.BigEndian.Uint32(end) == pageMark && binary.BigEndian.Uint32(end[4:]) == pageSum(page, offset)
}

// system is SQLite's access to files, and what of it is replaced. It is set up once, before the first file is opened, and stays.
var system struct {
	once    sync.Once
	err     error
	own     sqlite3.Tsqlite3_vfs
	machine uintptr      // the machine's
	open    openFile     // of the machine's
	methods sync.Map     // the machine's methods of files, by their address: *pageMethods
	damaged atomic.Int64 // offset of the page that was found damaged last
}

// The functions that are replaced, as SQLite calls them. Pointers are those of its C code.
type (
	openFile = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	transfer = func(tls *libc.TLS, file, buffer uintptr, amount int32, offset int64) int32
)

// pageMethods are the methods of a file, with those for reading and writing replaced. SQLite sees the first field.
type pageMethods struct {
	table       sqlite3.Tsqlite3_io_methods
	read, write transfer
}

// install makes the access to files that checks pages known to SQLite, under vfsName.
func install() error {
	system.once.Do(func() {
		tls := libc.NewTLS()
		defer tls.Close()
		if rc := sqlite3.Xsqlite3_initialize(tls); rc != sqlite3.SQLITE_OK {
			system.err = fmt.Errorf("SQLite does not start: code %d", rc)
			return
		}
		system.machine = sqlite3.Xsqlite3_vfs_find(tls, 0)
		system.own = *(*sqlite3.Tsqlite3_vfs)(at(system.machine))
		system.open = function[openFile](system.own.FxOpen)
		system.own.FxOpen = pointer[openFile](openPages)
		if system.own.FzName, system.err = libc.CString(vfsName); system.err != nil {
			return
		}
		if rc := sqlite3.Xsqlite3_vfs_register(tls, uintptr(unsafe.Pointer(&system.own)), 0); rc != sqlite3.SQLITE_OK {
			system.err = fmt.Errorf("SQLite takes no access to files: code %d", rc)
		}
	})
	return system.err
}

// openPages opens a file as the machine does. That of a database gets methods that check pages.
func openPages(tls *libc.TLS, _, name, file uintptr, flags int32, outFlags uintptr) int32 {
	rc := system.open(tls, system.machine, name, file, flags, outFlags)
	if rc != sqlite3.SQLITE_OK || flags&sqlite3.SQLITE_OPEN_MAIN_DB == 0 {
		return rc
	}
	methods := (*uintptr)(at(file)) // the first field of a file
	m, known := system.methods.Load(*methods)
	if !known {
		own := &pageMethods{table: *(*sqlite3.Tsqlite3_io_methods)(at(*methods))}
		own.read, own.write = function[transfer](own.table.FxRead), function[transfer](own.table.FxWrite)
		own.table.FxRead, own.table.FxWrite = pointer[transfer](readPage), pointer[transfer](writePage)
		m, _ = system.methods.LoadOrStore(*methods, own)
	}
	*methods = uintptr(unsafe.Pointer(m.(*pageMethods)))
	return rc
}

// page returns the page that is read or written; nil if it is a part of one.
func page(buffer uintptr, amount int32, offset int64) []byte {
	if amount != pageSize || offset%pageSize != 0 {
		return nil
	}
	return unsafe.Slice((*byte)(at(buffer)), pageSize)
}

func methodsOf(file uintptr) *pageMethods { return (*pageMethods)(at(*(*uintptr)(at(file)))) }

func readPage(tls *libc.TLS, file, buffer uintptr, amount int32, offset int64) int32 {
	rc := methodsOf(file).read(tls, file, buffer, amount, offset)
	if p := page(buffer, amount, offset); rc == sqlite3.SQLITE_OK && p != nil && !sealed(p, offset) {
		system.damaged.Store(offset)
		return sqlite3.SQLITE_IOERR_DATA
	}
	return rc
}

func writePage(tls *libc.TLS, file, buffer uintptr, amount int32, offset int64) int32 {
	if p := page(buffer, amount, offset); p != nil {
		seal(p, offset)
	}
	return methodsOf(file).write(tls, file, buffer, amount, offset)
}

// Pointers of the C code are numbers here, and its functions are pointers to values of functions.
func at(address uintptr) unsafe.Pointer     { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }
func pointer[F any](f F) uintptr            { return *(*uintptr)(unsafe.Pointer(&f)) }
func function[F any](address uintptr) (f F) { return *(*F)(unsafe.Pointer(&address)) }

// emptyFile is a database of one page, without tables, whose pages end with a checksum.
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
	seal(b, 0)
	return b
}
