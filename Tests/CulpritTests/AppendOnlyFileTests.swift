import CCulpritLinux
import Foundation
import TestSupport
import Testing

@testable import Culprit

private final class OpenFile {
  private var file: AppendOnlyFile

  init(_ path: String, among files: OpenFiles = OpenFiles()) throws(AppendOnlyFileError) {
    file = try AppendOnlyFile(path: path, among: files)
  }

  var bytes: off_t { file.bytes }
  var failure: String? { file.failure }
  var wasClosed: Bool { file.wasClosed }
  var isGone: Bool { file.isGone }
  func append(_ text: String) -> Bool { file.append(Array(text.utf8)) }
  func replace(_ text: String, at offset: off_t) -> Bool { file.replace(Array(text.utf8), at: offset) }
  func copy(to other: OpenFile) -> Bool { file.copy(to: &other.file) }
  func remove() { file.remove() }
  func flush() { file.flush() }
}

private final class LastReference: @unchecked Sendable {
  // SAFETY: used by one thread at a time.
  private var file: OpenFile?
  init(_ file: OpenFile?) { self.file = file }
  func release() { file = nil }
}

@Suite struct AppendOnlyFileTests {
  @TemporaryDirectory private var directory: String

  private func content(_ path: String) throws -> String { try String(contentsOfFile: path, encoding: .utf8) }

  @Test func appendsAndReplacesRecords() throws {
    let path = "\(directory)/file"
    let file = try OpenFile(path)
    #expect(file.append("one") && file.bytes == 3)
    #expect(file.append("") && file.append("twos") && file.bytes == 7)
    #expect(try content(path) == "onetwos")
    #expect(file.replace("TWO", at: 3) && file.bytes == 7)
    file.flush()
    #expect(try content(path) == "oneTWOs")
    var information = stat()
    #expect(stat(path, &information) == 0 && information.st_mode & 0o777 == 0o600)
    #expect(file.failure == nil && !file.wasClosed && !file.isGone)
  }

  @Test func neverOverwritesExistingFiles() throws {
    try Data("theirs".utf8).write(to: URL(fileURLWithPath: "\(directory)/file"))
    symlink("file", "\(directory)/link")
    for name in ["file", "link", "none/file"] {
      let error = #expect(throws: AppendOnlyFileError.self) { _ = try OpenFile("\(directory)/\(name)") }
      #expect(error?.text.hasPrefix("cannot create \(directory)/\(name): ") == true)
    }
    #expect(try content("\(directory)/file") == "theirs")
  }

  /// A file released by another thread must be closed in the disk thread's descriptor table.
  @Test func closesFilesReleasedByAnotherThread() throws {
    let open = OwnDescriptors.run { () -> Int in
      let files = OpenFiles()
      for number in 0..<3 * OpenFiles.limit {
        let last = LastReference(try? OpenFile("\(directory)/\(number)", among: files))
        let thread = try? PosixThread(name: "release") { last.release() }
        _ = thread?.join(until: .max)
      }
      return (3..<1024).count { fcntl(Int32($0), F_GETFD) >= 0 }
    }
    #expect(open > 0 && open <= OpenFiles.limit)
  }

  @Test func copiesUnlinkedFiles() throws {
    let path = "\(directory)/file"
    let file = try OpenFile(path)
    #expect(file.append(String(repeating: "record", count: 30_000)))
    unlink(path)
    #expect(file.isGone)
    let anew = try OpenFile(path)
    #expect(file.isGone)
    #expect(!anew.isGone)
    #expect(file.copy(to: anew) && anew.bytes == file.bytes)
    #expect(anew.append("more"))
    #expect(try content(path) == String(repeating: "record", count: 30_000) + "more")
    anew.remove()
    #expect(access(path, F_OK) != 0)
  }

  @Test func detectsRemovedDirectory() throws {
    let folder = "\(directory)/a"
    mkdir(folder, 0o700)
    let file = try OpenFile("\(folder)/file")
    try FileManager.default.removeItem(atPath: folder)
    #expect(file.isGone)
    try Data().write(to: URL(fileURLWithPath: folder))
    #expect(file.isGone)
  }

  @Test func reopensFilesClosedByService() throws {
    let path = "\(directory)/file"
    let file = try OpenFile(path)
    #expect(file.append("one"))
    let number = try descriptor(of: path)
    let other = open("\(directory)/other", O_RDWR | O_CREAT, 0o600)
    dup2(other, number)
    #expect(file.append("two"))
    #expect(file.wasClosed && file.failure == nil)
    #expect(try content(path) == "onetwo" && content("\(directory)/other") == "")
    unlink(path)
    let again = try descriptor(of: path + " (deleted)")
    dup2(other, again)
    #expect(!file.append("three") && file.bytes == 6)
    #expect(file.failure == "\(path) was closed, and cannot be opened again")
    #expect(try content("\(directory)/other") == "")
    for number in [number, again, other] { close(number) }
  }

  /// A new file must not get the descriptor of a closed standard stream.
  @Test func avoidsStandardStreamDescriptors() throws {
    let path = "\(directory)/file"
    let (numbers, failure) = try withOwnDescriptors {
      for stream in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] { close(stream) }
      let file = try OpenFile(path)
      _ = file.append("one")
      let first = try descriptor(of: path)
      close(first)
      _ = file.append("two")
      return ([first, try descriptor(of: path)], file.failure)
    }
    #expect(numbers.allSatisfy { $0 > STDERR_FILENO } && failure == nil)
    #expect(try content(path) == "onetwo")
  }

  @Test func continuesAfterFailedWrites() throws {
    let path = "\(directory)/file"
    let file = try OpenFile(path)
    #expect(file.append("one"))
    let number = try descriptor(of: path)
    let saved = fcntl(number, F_DUPFD_CLOEXEC, 0)
    let readOnly = open(path, O_RDONLY)
    dup2(readOnly, number)
    #expect(!file.append("two") && file.bytes == 3)
    #expect(file.failure == "cannot write to \(path): Bad file descriptor")
    #expect(!file.replace("ONE", at: 0))
    dup2(saved, number)
    #expect(file.append("three") && file.replace("ONE", at: 0))
    #expect(file.failure == "cannot write to \(path): Bad file descriptor")
    #expect(try content(path) == "ONEthree")
    close(saved)
    close(readOnly)
  }

  @Test func createsDirectoriesWithParents() throws {
    try DirectoryFiles.prepare("\(directory)/a/b/c")
    var information = stat()
    #expect(stat("\(directory)/a/b/c", &information) == 0 && information.st_mode & 0o777 == 0o700)
    try DirectoryFiles.prepare("\(directory)/a/b/c")
    try Data().write(to: URL(fileURLWithPath: "\(directory)/file"))
    for (path, reason) in [
      ("file", "it is not a directory"), ("file/below", "Not a directory"),
      (String(repeating: "n", count: 256), "File name too long"),
      ("new/" + String(repeating: "n", count: 256), "File name too long"),
      (String(repeating: "n/", count: 2048), "File name too long"),
    ] {
      let error = #expect(throws: DirectoryError.self) { try DirectoryFiles.prepare("\(directory)/\(path)") }
      #expect(error?.reason == reason, "\(path)")
    }
    #expect(access("\(directory)/new", F_OK) != 0)
    try DirectoryFiles.prepare("\(directory)/" + String(repeating: "n", count: 255))
  }

  @Test func failsToCopyLostFiles() throws {
    let path = "\(directory)/file"
    let file = try OpenFile(path)
    #expect(file.append("one"))
    close(try descriptor(of: path))
    try FileManager.default.removeItem(atPath: path)
    let other = try OpenFile("\(directory)/other")
    #expect(!file.copy(to: other) && other.bytes == 0)
    #expect(file.wasClosed && file.failure?.contains(path) == true)
  }
}
