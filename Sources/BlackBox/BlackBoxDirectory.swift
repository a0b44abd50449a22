import CulpritStallRecord
import Glibc

/// A directory with the `.run` and `.stall` files of service runs.
///
/// Only plain files are opened, and links are not followed, because other users might have written to the directory.
package struct BlackBoxDirectory: Sendable {
  package let path: String
  /// The user whose files are opened; `nil` for all users.
  private let owner: uid_t?
  /// The name of this process's own file, which is never opened. Closing any descriptor of a file releases the
  /// process's locks on it (fcntl(2)).
  private let ownFile: String?
  let own = ProcessIdentity.ofThisProcess()

  /// Creates a view of the directory at `path`.
  ///
  /// - Parameters:
  ///   - path: The path of the directory.
  ///   - owner: The user whose files count. Must be set if files are written, removed or trusted. Excludes files of
  ///     other users, and files with several hard links, which might be links to files elsewhere. `nil` admits all
  ///     files, for reading.
  ///   - ownFile: The name of this process's file in the directory, if there is one.
  package init(path: String, owner: uid_t? = nil, ownFile: String? = nil) {
    self.path = path
    self.owner = owner
    self.ownFile = ownFile
  }

  /// A `.stall` file of a run.
  package struct SavedStall: Sendable {
    /// The file name.
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

  /// The boot ID of this machine.
  package var boot: String { own.boot }

  /// Returns the sorted names of the files that start with `prefix` and end with one of `suffixes`. Names with
  /// Culprit's prefix, the default, sort by time.
  ///
  /// - Throws: ``BlackBoxError`` if the directory cannot be opened.
  package func names(_ suffixes: [String], beginningWith prefix: String = "culprit-") throws(BlackBoxError) -> [String]
  {
    guard let stream = opendir(path) else { throw BlackBoxError(path: path, number: errno) }
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream) {
      // SAFETY: readdir terminates the name with a zero byte. The name is copied before the next call.
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { name in
          // Most files might be unrelated. No string is created for them.
          strncmp(name, prefix, prefix.utf8.count) == 0 ? String(cString: name) : nil
        }
      }
      if let name, suffixes.contains(where: name.hasSuffix) { names.append(name) }
    }
    return names.sorted()
  }

  /// Whether `information` describes a plain file that satisfies the owner restriction.
  private func counts(_ information: stat) -> Bool {
    guard information.st_mode & S_IFMT == S_IFREG else { return false }
    return owner.map { information.st_uid == $0 && information.st_nlink == 1 } ?? true
  }

  /// Returns the metadata of the file `name`; `nil` if it does not exist or does not count.
  package func information(_ name: String) -> stat? {
    var information = stat()
    return lstat("\(path)/\(name)", &information) == 0 && counts(information) ? information : nil
  }

  /// Opens the plain file `name`. Returns `nil` if it does not count or cannot be opened. The caller closes the
  /// descriptor.
  package func open(_ name: String, _ mode: Int32) -> Int32? {
    // The check precedes opening: closing a link to a file that this process has locked would release the lock.
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

  /// Reads the run record from `descriptor`; `nil` if it is unreadable or invalid.
  package func record(_ descriptor: Int32) -> RunRecord? {
    SmallFile.text(descriptor, max: Self.recordBytesMax).flatMap { RunRecord(text: $0) }
  }

  /// Maximum size of a run's file, which contains modules and notes of hangs (`LINES_BYTES_MAX` in hang_notes.c).
  private static let recordBytesMax = 2 << 20

  /// Reads the run record from `descriptor` and checks whether the run continues. Must not be called for this process's
  /// own file.
  package func look(_ descriptor: Int32) -> (record: RunRecord, isRunning: Bool)? {
    guard let record = record(descriptor) else { return nil }
    guard !isRunning(record, descriptor) else { return (record, true) }
    // The run might have ended, and recorded its end, since the first read.
    return self.record(descriptor).map { ($0, false) }
  }

  /// Whether the run of `record`, which must be another file than this process's own, continues: its process still
  /// exists and still belongs to this run. If the process cannot be checked (its process ID belongs to another
  /// namespace or machine, or its main thread has ended), the lock on the file open as `descriptor` decides.
  private func isRunning(_ record: RunRecord, _ descriptor: Int32) -> Bool {
    guard record.ended == nil else { return false }
    if let isRunning = record.identity.isRunning(seenBy: own) { return isRunning && !wasReplaced(record) }
    var lock = flock()
    lock.l_type = Int16(F_WRLCK)
    lock.l_whence = Int16(SEEK_SET)
    return fcntl(descriptor, F_GETLK, &lock) == 0 && lock.l_type != Int16(F_UNLCK)
  }

  /// Whether the process of `record` continued without this run, by executing a program (execve(2)): it is this
  /// process, whose own file is another one, or it has left a later file. Opens and closes files, which releases this
  /// process's locks on them.
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

  /// The stalls of a run.
  package struct RunStalls: Sendable {
    /// The readable files.
    package var saved: [SavedStall] = []
    /// A sentence for each file that might belong to the run and cannot be read. Damage in the middle of a file is
    /// found only when the whole file is read.
    package var problems: [String] = []
    /// Whether a stall has no end, as far as is known. Includes stalls in unreadable files.
    package var hasOpen = false
    /// Whether such a stall was a hang. Known only for a run with a recorded end.
    package var hasOpenHang = false
  }

  /// Bytes at the start of a file that are searched for its owner and for the end of its stall. The recorder writes
  /// both before anything else.
  private static let headBytes = 64 << 10
  /// Bytes at the end of a file that are searched for the note that the stall's report was delivered.
  private static let tailBytes = 16 << 10

  /// Returns the stalls of the run `record`.
  ///
  /// No file is read completely, except open stalls of a run with a recorded end. A run can leave more data than fits
  /// into memory. In a container, where every service has the same process ID, each file might belong to any run.
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
        // Process IDs are reused.
        guard process.id == record.identity.process, process.watchedSince == record.since else { continue }
        let stalls = file.recording.stalls
        // A file that was truncated before its stall contains no stall.
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

  /// Maximum size of a `.stall` file that is read.
  static let stallBytesMax = 64 << 20

  /// Reads the `.stall` file open as `descriptor`. Returns its content and the tag of its records, or `nil` if it
  /// cannot be read.
  package func stall(_ descriptor: Int32) -> (file: StallFile, tag: UInt16)? {
    SmallFile.bytes(descriptor, max: Self.stallBytesMax)
      .flatMap { try? StallFile(bytes: $0, samples: Stall.samplesForReport) }
      .map { ($0, $0.tag) }
  }

  /// Reads the `.stall` file `name`; `nil` if it cannot be read.
  package func stall(_ name: String) -> StallFile? {
    guard let descriptor = open(name, O_RDONLY) else { return nil }
    defer { close(descriptor) }
    return stall(descriptor)?.file
  }
}

/// A directory, or a file in it, cannot be read.
package struct BlackBoxError: Error, CustomStringConvertible {
  /// The path of the directory or file.
  package var path: String
  /// The error number (errno(3)).
  package var number: Int32

  /// A message without a final period.
  package var description: String { "\(path): \(String(cString: strerror(number)))" }
}
