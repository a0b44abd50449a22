import CulpritStallRecord
import Foundation
import TestSupport
import Testing

@testable import Culprit

@Suite(.ownThread) struct FileLocksTests {
  private let list = """
    1: POSIX  ADVISORY  WRITE 10650 fe:00:16286035 1073741824 1073742335
    2: FLOCK  ADVISORY  WRITE 4711 fe:00:100 0 EOF
    2: -> FLOCK  ADVISORY  WRITE 42 fe:00:100 0 EOF
    2: -> FLOCK  ADVISORY  WRITE 43 fe:00:100 0 EOF
    3: OFDLCK ADVISORY  WRITE -1 fe:00:200 0 EOF
    3: -> OFDLCK ADVISORY  WRITE 42 fe:00:200 0 EOF
    4: LEASE  ACTIVE    WRITE 5 fe:00:300 0 EOF
    5: POSIX  ADVISORY  READ  42 00:19:400 0 1
    5: -> POSIX  ADVISORY  WRITE 43 00:19:400 0 1
    """

  @Test func findsLockOwnerOfWaiter() {
    #expect(FileLocks.holder(in: list, waiter: 42, inode: 100) == 4711)
    #expect(FileLocks.holder(in: list, waiter: 43, inode: 100) == 4711)
    #expect(FileLocks.holder(in: list, waiter: 43, inode: 400) == 42)
  }

  @Test func returnsNoOwnerWithoutEvidence() {
    // Locks of open file descriptions have no owner. Other processes do not wait for the file.
    #expect(FileLocks.holder(in: list, waiter: 42, inode: 200) == nil)
    #expect(FileLocks.holder(in: list, waiter: 42, inode: 400) == nil)
    #expect(FileLocks.holder(in: list, waiter: 44, inode: 100) == nil)
    #expect(FileLocks.holder(in: list, waiter: 43, inode: 300) == nil)
    #expect(
      FileLocks.holder(
        in: "1: FLOCK  ADVISORY  WRITE 7 fe:00:1 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 42 fe:00:2 0 EOF",
        waiter: 42,
        inode: 2
      ) == nil
    )
    for text in [
      "", "\n", "->", "1: ->", "1: -> FLOCK ADVISORY WRITE x fe:00:1 0 EOF", "1: FLOCK ADVISORY WRITE 99999999999 a 0",
    ] {
      #expect(FileLocks.holder(in: text, waiter: 42, inode: 1) == nil)
    }
  }

  /// Arguments: the file's locks, the number of its descriptors in process 42, the expected owner.
  @Test(arguments: [
    ("POSIX WRITE 7", 1, Int32(7)), ("FLOCK WRITE 7", 1, 7), ("POSIX READ 7", 1, 7), ("LEASE WRITE 7", 1, nil),
    ("OFDLCK WRITE -1", 1, nil), ("POSIX WRITE 42", 1, nil), ("POSIX READ 42", 2, nil), ("POSIX WRITE 42", 2, 42),
    // A writer takes precedence over readers. Two equal owners yield none.
    ("POSIX READ 8,POSIX READ 42,POSIX WRITE 7", 2, 7), ("POSIX READ 7,POSIX READ 8", 1, nil),
    ("POSIX WRITE 7,POSIX WRITE 8", 1, nil), ("POSIX WRITE 42,POSIX READ 7", 2, nil),
    ("POSIX WRITE 42,POSIX READ 7", 1, 7), ("-> POSIX WRITE 7", 1, nil),
  ]) func findsOnlyPossibleLockOwner(text: String, descriptors: Int, owner: Int32?) throws {
    let lines = text.split(separator: ",")
      .map { lock in
        let words = lock.split(separator: " ")
        let kind = words.dropLast(2).joined(separator: " ")
        return "1: \(kind)  ADVISORY  \(words.suffix(2).joined(separator: " ")) fe:00:100 0 EOF"
      }
    let locks = try lines.map { try #require(FileLocks.Lock(Substring($0))) }
    let file = FileLocks.Lock.File(device: 0xfe << 32, inode: 100)
    func find(_ open: [FileLocks.Lock.File: Int]) -> Int32? {
      FileLocks.triedLock(locks, process: 42, descriptors: open)?.process
    }
    #expect(find([file: descriptors]) == owner)
    #expect(find([FileLocks.Lock.File(device: 0xfd << 32, inode: 100): descriptors]) == nil)
  }

  @Test func parsesInodeOfDescriptor() {
    #expect(FileLocks.inode("pos:\t0\nflags:\t0100002\nmnt_id:\t25\nino:\t16225211\n") == 16_225_211)
    #expect(FileLocks.inode("pos:\t0\n") == nil && FileLocks.inode("ino:\tx") == nil && FileLocks.inode("") == nil)
  }

  @Test func reportsFileLockOwner() throws {
    let child = try ChildProcess(ChildProcess.built("waiting-process"), ["file-lock", "json"])
    let report = try JSONDecoder().decode(StallReport.self, from: Data(child.output.utf8))
    let note = try #require(report.notes.first { $0.kind == .fileLock }, "\(report)")
    #expect(report.notes.count { $0.kind == .fileLock } == 1, "\(report.notes)")
    #expect(note.title.hasPrefix("process ") && note.title.hasSuffix(" (flock)"), "\(note)")
    #expect(report.causes.first?.kind == .lock, "\(report)")
    let words = report.description.split { $0.isWhitespace }.joined(separator: " ")
    #expect(words.contains("is locked by process ") && words.contains("(flock)"), "\(report)")
  }
}
