import CCulpritLinux
import Foundation
import Glibc
import Testing

/// Descriptors of the library, which the service might close.
@Suite struct DescriptorTests {
  @Test func recognizesKeptDescriptor() {
    let number = unnamedFile()
    var kept = clinux_descriptor_keep(number)
    #expect(kept.number == number && kept.inode != 0)
    #expect(clinux_descriptor_is_ours(&kept))
    var other = clinux_descriptor_keep(dup(number))
    clinux_descriptor_close(&kept)
    #expect(kept.number == -1 && !clinux_descriptor_is_ours(&kept))
    // The number can belong to another file by now.
    #expect(!clinux_descriptor_is_same(&other, number) && clinux_descriptor_is_ours(&other))
    // A second close does nothing.
    clinux_descriptor_close(&kept)
    clinux_descriptor_close(&other)
  }

  @Test func rejectsInvalidDescriptors() {
    for number: Int32 in [-1, -9, 1 << 20] {
      var none = clinux_descriptor_keep(number)
      #expect(!clinux_descriptor_is_ours(&none) && !clinux_descriptor_is_same(&none, number), "\(number)")
      clinux_descriptor_close(&none)
    }
  }

  /// A duplicate descriptor refers to the kept file; a descriptor of another file does not.
  @Test func identifiesFileByInode() {
    var kept = clinux_descriptor_keep(unnamedFile())
    let (again, other) = (dup(kept.number), unnamedFile())
    #expect(clinux_descriptor_is_same(&kept, again) && !clinux_descriptor_is_same(&kept, other))
    #expect(!clinux_descriptor_is_same(&kept, -1))
    for change in 0..<3 {
      var changed = kept
      switch change {
      case 0: changed.device &+= 1
      case 1: changed.inode &+= 1
      default: changed.born_ns &+= 1
      }
      #expect(!clinux_descriptor_is_ours(&changed), "\(change)")
    }
    close(again)
    close(other)
    clinux_descriptor_close(&kept)
  }

  /// The service has reused the descriptor's number for another file, which must stay open.
  @Test func doesNotCloseReusedDescriptor() {
    var kept = clinux_descriptor_keep(unnamedFile())
    let number = kept.number
    let other = unnamedFile()
    #expect(dup2(other, number) == number)
    #expect(!clinux_descriptor_is_ours(&kept))
    clinux_descriptor_close(&kept)
    #expect(fcntl(number, F_GETFD) >= 0 && kept.number == -1)
    close(number)
    close(other)
  }

  @Test func preservesErrno() {
    var none = clinux_descriptor()
    none.number = 1 << 20
    none.inode = 1
    errno = 4711
    _ = clinux_descriptor_is_ours(&none)
    #expect(errno == 4711)
    errno = 4711
    clinux_descriptor_close(&none)
    #expect(errno == 4711)
  }
}

@Suite struct RegularFileTests {
  @Test func opensOnlyRegularFiles() throws {
    var name = Array((NSTemporaryDirectory() + "culprit-test-XXXXXX").utf8CString)
    let directory = try #require(mkdtemp(&name).map { String(cString: $0) })
    defer { for entry in ["file", "link", "pipe", "loop", ""] { remove("\(directory)/\(entry)") } }
    let file = creat("\(directory)/file", 0o600)
    #expect(write(file, "content", 7) == 7)
    close(file)
    symlink("file", "\(directory)/link")
    symlink("loop", "\(directory)/loop")
    mkfifo("\(directory)/pipe", 0o600)
    for name in ["file", "link"] {
      let descriptor = clinux_open_regular("\(directory)/\(name)")
      try #require(descriptor >= 0, "\(name)")
      var bytes = [UInt8](repeating: 0, count: 10)
      #expect(read(descriptor, &bytes, 10) == 7 && fcntl(descriptor, F_GETFD) & FD_CLOEXEC != 0)
      #expect(write(descriptor, "x", 1) < 0)
      close(descriptor)
    }
    #expect(clinux_open_regular(directory) == -EINVAL)
    #expect(clinux_open_regular("\(directory)/pipe") == -EINVAL)
    #expect(clinux_open_regular("/dev/null") == -EINVAL)
    #expect(clinux_open_regular("\(directory)/none") == -ENOENT)
    #expect(clinux_open_regular("\(directory)/loop") == -ELOOP)
  }

  @Test func closesRejectedFiles() throws {
    var name = Array((NSTemporaryDirectory() + "culprit-test-XXXXXX").utf8CString)
    let directory = try #require(mkdtemp(&name).map { String(cString: $0) })
    defer { rmdir(directory) }
    var information = stat()
    #expect(stat(directory, &information) == 0)
    for _ in 0..<20 { #expect(clinux_open_regular(directory) == -EINVAL) }
    let open = (0..<Int32(1024)).filter { number in
      var found = stat()
      return fstat(number, &found) == 0 && found.st_ino == information.st_ino && found.st_dev == information.st_dev
    }
    #expect(open == [])
  }
}
