import CulpritStallRecord
import Glibc

/// A directory with the `.run` and `.stall` files of service runs.
///
/// Other users might have created files, so only plain files are opened, and links are not followed.
package struct BlackBoxDirectory: Sendable {
  package let path: String
  /// The user whose files are opened; `nil` for all users.
  private let owner: uid_t?
  /// This process's file, never opened: closing it would release the process's locks on it (fcntl(2)).
  private let ownFile: String?
  let own = ProcessIdentity.ofThisProcess()

  /// Admits only files of `owner` with a single hard link. `nil` admits all files, for reading only.
  package init(path: String, owner: uid_t? = nil, ownFile: String? = nil) {
    self.path = path
    self.owner = owner
    self.ownFile = ownFile
  }

  package struct SavedStall: Sendable {
    package let name: String
    /// Whether the file contains a stall without an end.
    package let isOpen: Bool
    /// Whether the run has delivered the report of the stall.
    package let isReported: Bool
    /// The number of bytes that ``stall(_:)`` reads.
    package let bytes: Int

    /// Whether the stall has ended, and its report was pending at the end of the run.
    package var isPending: Bool { !isOpen && !isReported }
  }

  /// Returns sorted names. Names with the default prefix sort by time.
  package func names(_ suffixes: [String], beginningWith prefix: String = "culprit-") throws(BlackBoxError) -> [String]
  {
    guard let stream = opendir(path) else { throw BlackBoxError(path: path, number: errno) }
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream) {
      // SAFETY: readdir terminates the name with a zero byte. The name is copied before the next call.
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { name in
          // Unrelated names, which might be the majority, create no string.
          strncmp(name, prefix, prefix.utf8.count) == 0 ? String(cString: name) : nil
        }
      }
      if let name, suffixes.contains(where: name.hasSuffix) { names.append(name) }
    }
    return names.sorted()
  }

  /// Whether this is a plain file that satisfies the owner restriction.
  private func counts(_ information: stat) -> Bool {
    guard information.st_mode & S_IFMT == S_IFREG else { return false }
    return owner.map { information.st_uid == $0 && information.st_nlink == 1 } ?? true
  }

  /// Returns `nil` for a missing or inadmissible file.
  package func information(_ name: String) -> stat? {
    var information = stat()
    return lstat("\(path)/\(name)", &information) == 0 && counts(information) ? information : nil
  }

  /// Returns `nil` for an inadmissible file or a failed open. The caller closes the descriptor.
  package func open(_ name: String, _ mode: Int32) -> Int32? {
    // Checked before opening: closing any link to this process's locked file would release its lock.
    guard name != ownFile, information(name) != nil else { return nil }
    let descriptor = Glibc.open("\(path)/\(name)", mode | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    var information = stat()
    guard fstat(descriptor, &information) == 0, counts(information) else {
      close(descriptor)
      return nil
    }
    return descriptor
  }

  /// Returns `nil` for an unreadable or invalid record.
  package func record(_ descriptor: Int32) -> RunRecord? {
    SmallFile.text(descriptor, max: Self.recordBytesMax).flatMap { RunRecord(text: $0) }
  }

  /// Maximum size of a run's file, which contains modules and notes of hangs (`LINES_BYTES_MAX` in hang_notes.c).
  private static let recordBytesMax = 2 << 20

  /// Returns the record and whether its run continues. Must not be called for this process's file.
  package func recordAndState(_ descriptor: Int32) -> (record: RunRecord, isRunning: Bool)? {
    guard let record = record(descriptor) else { return nil }
    guard !isRunning(record, descriptor) else { return (record, true) }
    // The run might have recorded its end after the first read, so the record is read again.
    return self.record(descriptor).map { ($0, false) }
  }

  /// Whether the process of `record` still exists and belongs to this run.
  ///
  /// If the process ID belongs to another namespace or machine, or the main thread has ended, the file's lock decides.
  private func isRunning(_ record: RunRecord, _ descriptor: Int32) -> Bool {
    guard record.ended == nil else { return false }
    if let isRunning = record.identity.isRunning(seenBy: own) { return isRunning && !wasReplaced(record) }
    var lock = flock()
    lock.l_type = Int16(F_WRLCK)
    lock.l_whence = Int16(SEEK_SET)
    return fcntl(descriptor, F_GETLK, &lock) == 0 && lock.l_type != Int16(F_UNLCK)
  }

  /// Whether the process continued after execve(2), without this run: it is the calling process, or has created a newer
  /// file. Releases this process's locks on the files.
  package func wasReplaced(_ record: RunRecord) -> Bool {
    if record.identity == own { return true }
    let suffix = "-\(record.identity.process)."
    let others = (try? names([".run", ".told"]))?.filter { $0.contains(suffix) } ?? []
    return others.contains { name in
      guard let descriptor = open(name, O_RDONLY) else { return false }
      defer { close(descriptor) }
      guard let other = self.record(descriptor) else { return false }
      return other.identity == record.identity && other.since > record.since
    }
  }

  package struct RunStalls: Sendable {
    package var saved: [SavedStall] = []
    /// A sentence for each unreadable file that might belong to the run. Damage in the middle is found only if the
    /// whole file is read.
    package var problems: [String] = []
    /// Whether a stall has no known end. Includes stalls in unreadable files.
    package var hasOpen = false
    /// Whether an open stall was a hang. Determined only for a run with a recorded end.
    package var hasOpenHang = false
  }

  /// Bytes searched at the start of a file for its owner and the end of the stall. The recorder writes both first.
  private static let headBytes = 64 << 10
  /// Bytes searched at the end of a file for the note of a delivered report.
  private static let tailBytes = 16 << 10

  /// Returns the stalls of the run. Files can exceed the memory and are read only in part, except open stalls of a run
  /// with a recorded end. In containers, the process ID does not distinguish runs.
  package func stalls(of record: RunRecord) -> RunStalls {
    let (suffix, first) = ("-\(record.identity.process)-", "culprit-\(record.since.fileNamePart)")
    var found = RunStalls()
    // The time in a file name is the start of the stall or of the run, whichever is later.
    for name in (try? names([".stall"]))?.filter({ $0.contains(suffix) && $0 >= first }) ?? [] {
      guard let descriptor = open(name, O_RDONLY) else { continue }
      defer { close(descriptor) }
      guard let head = SmallFile.bytes(descriptor, max: Self.headBytes) else {
        found.problems.append("\(path)/\(name): \(String(cString: strerror(errno)))")
        continue
      }
      let isWhole = head.count < Self.headBytes
      do throws(StallFileError) {
        let file = try StallFile(bytes: head)
        guard let process = file.recording.process else {
          found.problems += file.problems.prefix(1).map { "\(path)/\(name): \($0)" }
          continue
        }
        guard process.id == record.identity.process, process.watchedSince == record.since else { continue }
        let stalls = file.recording.stalls
        // A file truncated before the stall's record contains no stall.
        let isUnended = stalls.isEmpty ? !isWhole : stalls.contains { !$0.hasEnded }
        let isOpen = isUnended && !StallFile.hasEnd(head)
        let bytes = min(SmallFile.size(descriptor), Self.stallBytesMax)
        let isReported =
          StallFile.hasNote(.reported, in: head)
          || !isWhole && StallFile.hasNote(.reported, in: SmallFile.tail(descriptor, max: Self.tailBytes))
        found.saved.append(SavedStall(name: name, isOpen: isOpen, isReported: isReported, bytes: bytes))
        found.hasOpen = found.hasOpen || isOpen
        if isOpen, record.ended != nil, !found.hasOpenHang {
          let content = isWhole ? head : SmallFile.bytes(descriptor, max: Self.stallBytesMax)
          found.hasOpenHang = content.map { StallFile.hasNote(.hang, in: $0) } ?? false
        }
      } catch {
        found.problems.append("\(path)/\(name) \(error)")
        if !StallFile.hasEnd(head) { found.hasOpen = true }
      }
    }
    return found
  }

  /// Returns the verdict on a run that is over. `wasReplaced` is whether the process continued without the run.
  package func verdict(of record: RunRecord, _ stalls: RunStalls, wasReplaced: Bool) -> RunVerdict {
    RunVerdict(
      of: record,
      hasOpenStall: stalls.hasOpen,
      hasOpenHang: stalls.hasOpenHang,
      boot: own.boot,
      memoryKills: MemoryKills.change(since: record.memoryKills),
      wasReplaced: wasReplaced
    )
  }

  static let stallBytesMax = 64 << 20

  /// Returns the file's content, or `nil` for an unreadable file.
  package func stall(_ descriptor: Int32) -> StallFile? {
    SmallFile.bytes(descriptor, max: Self.stallBytesMax)
      .flatMap { try? StallFile(bytes: $0, samples: Stall.samplesForReport) }
  }

  package func stall(_ name: String) -> StallFile? {
    guard let descriptor = open(name, O_RDONLY) else { return nil }
    defer { close(descriptor) }
    return stall(descriptor)
  }
}

package struct BlackBoxError: Error, CustomStringConvertible {
  package var path: String
  package var number: Int32

  package var description: String { "\(path): \(String(cString: strerror(number)))" }
}
