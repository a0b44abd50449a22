import CulpritStallRecord
import Glibc

/// A directory that runs of services leave their `.run` and `.stall` files in.
///
/// Files are opened without following links, and only plain files are read: others may have written to the directory.
package struct BlackBoxDirectory: Sendable {
  /// Where it is.
  package let path: String
  /// Whose files are opened; `nil` for everybody's.
  private let owner: uid_t?
  /// The name of this process's own file, which is not opened: closing what it has locked takes the lock away.
  private let ownFile: String?
  let own = ProcessIdentity.ofThisProcess()

  /// The directory at `path`.
  ///
  /// - Parameters:
  ///   - path: Where it is.
  ///   - owner: Whose files count, for who writes to them, removes them or believes them: none of another user, nor one with
  ///     a second name, which may be a file elsewhere that somebody has linked here. With `nil` all can be read.
  ///   - ownFile: The name of the file of this process, if it has one here.
  package init(path: String, owner: uid_t? = nil, ownFile: String? = nil) {
    self.path = path
    self.owner = owner
    self.ownFile = ownFile
  }

  /// A `.stall` file.
  package struct SavedStall: Sendable {
    /// Its name.
    package let name: String
    /// Whether a stall in it has no end.
    package let isOpen: Bool
    /// How much of it ``stall(_:)`` reads, in bytes.
    package let bytes: Int
  }

  /// This machine's boot id.
  package var boot: String { own.boot }

  /// The names of the files that end in one of `suffixes` and begin with `prefix`, by default as Culprit's do: these are in order of
  /// time.
  package func names(_ suffixes: [String], beginningWith prefix: String = "culprit-") throws(BlackBoxError) -> [String]
  {
    guard let stream = opendir(path) else { throw BlackBoxError(path: path, number: errno) }
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream) {
      // SAFETY: readdir ends the name with a zero; it is copied before the next call.
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { name in
          // Most may be others': of these no text is made.
          strncmp(name, prefix, prefix.utf8.count) == 0 ? String(cString: name) : nil
        }
      }
      if let name, suffixes.contains(where: name.hasSuffix) { names.append(name) }
    }
    return names.sorted()
  }

  /// Whether what `information` is of is a plain file, and one of the owner's where that matters.
  private func counts(_ information: stat) -> Bool {
    guard information.st_mode & S_IFMT == S_IFREG else { return false }
    return owner.map { information.st_uid == $0 && information.st_nlink == 1 } ?? true
  }

  /// What is at `name`, if it is a file that counts.
  package func information(_ name: String) -> stat? {
    var information = stat()
    return lstat("\(path)/\(name)", &information) == 0 && counts(information) ? information : nil
  }

  /// Opens the plain file `name`; `nil` when it is none, does not count or cannot be opened. The caller closes it.
  package func open(_ name: String, _ mode: Int32) -> Int32? {
    // Looked at first: opening a link to a file that this process has locked, and closing it, takes the lock away.
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

  /// What the file of a run that is open as `descriptor` says.
  package func record(_ descriptor: Int32) -> RunRecord? {
    SmallFile.text(descriptor, max: Self.recordBytesMax).flatMap { RunRecord(text: $0) }
  }

  /// The most bytes of a run's file: modules, and notes of hangs (`LINES_BYTES_MAX` in hang_notes.c).
  private static let recordBytesMax = 2 << 20

  /// What the file of a run that is open as `descriptor` says, and whether the run goes on. Not for the file of this run.
  package func look(_ descriptor: Int32) -> (record: RunRecord, isRunning: Bool)? {
    guard let record = record(descriptor) else { return nil }
    guard !isRunning(record, descriptor) else { return (record, true) }
    // It may have ended since the file was read, and have said so.
    return self.record(descriptor).map { ($0, false) }
  }

  /// Whether `record`, a file other than this process's own, is of a run that goes on: whether its process still runs, and
  /// still as that run. Where that does not tell (its process id is of another namespace or machine, its main thread has ended),
  /// whether it holds the lock on its file, which is open as `descriptor`.
  private func isRunning(_ record: RunRecord, _ descriptor: Int32) -> Bool {
    guard record.ended == nil else { return false }
    if let isRunning = record.identity.isRunning(seenBy: own) { return isRunning && !wasReplaced(record) }
    var lock = flock()
    lock.l_type = Int16(F_WRLCK)
    lock.l_whence = Int16(SEEK_SET)
    return fcntl(descriptor, F_GETLK, &lock) == 0 && lock.l_type != Int16(F_UNLCK)
  }

  /// Whether the process of `record` has gone on without it, as another program or as the same one anew (execve(2)): it is
  /// this process, whose own file this is not, or has left a later file. Opens and closes files, which takes locks on them away.
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

  /// What there is of a run's stalls.
  package struct RunStalls: Sendable {
    /// Those that can be read.
    package var saved: [SavedStall] = []
    /// A sentence for each file that may be one of the run's and cannot be read. What is damaged in the middle of a file is
    /// found by who reads it.
    package var problems: [String] = []
    /// Whether a stall has no end, as far as can be seen: also one of a file that cannot be read.
    package var hasOpen = false
  }

  /// How much of a file is looked at to find whose it is and whether its stall has ended. The recorder writes both there
  /// before anything else.
  private static let headBytes = 64 << 10
  /// Older versions wrote the end at the end.
  private static let tailBytes = 16 << 10

  /// The stalls of the run `record`.
  ///
  /// No file is read in whole: a run may leave more than fits into the memory of the next one, and in a container, where
  /// every service has the same process id, each file may be any run's.
  package func stalls(of record: RunRecord) -> RunStalls {
    let (suffix, first) = ("-\(record.identity.process)-", "culprit-\(record.since.fileNamePart)")
    var found = RunStalls()
    // The time in a name is when the stall began, or the run where that is later.
    for name in (try? names([".stall"]))?.filter({ $0.contains(suffix) && $0 >= first }) ?? [] {
      guard let descriptor = open(name, O_RDONLY) else { continue }
      defer { close(descriptor) }
      guard let head = SmallFile.bytes(descriptor, max: Self.headBytes) else {
        found.problems.append("\(path)/\(name): \(String(cString: strerror(errno)))")
        continue
      }
      let isWhole = head.count < Self.headBytes
      func hasEnd() -> Bool {
        StallFile.hasEnd(head) || !isWhole && StallFile.hasEnd(SmallFile.tail(descriptor, max: Self.tailBytes))
      }
      do throws(StallFileError) {
        let file = try StallFile(bytes: head)
        guard let process = file.recording.process else {
          found.problems += file.problems.prefix(1).map { "\(path)/\(name): \($0)" }
          continue
        }
        // The process id may have been used before.
        guard process.id == record.identity.process, process.watchedSince == record.since else { continue }
        let stalls = file.recording.stalls
        // A file that was cut before its stall has none.
        let isUnended = stalls.isEmpty ? !isWhole : stalls.contains { !$0.hasEnded }
        let isOpen = isUnended && !hasEnd()
        let bytes = min(SmallFile.size(descriptor), Self.stallBytesMax)
        found.saved.append(SavedStall(name: name, isOpen: isOpen, bytes: bytes))
        found.hasOpen = found.hasOpen || isOpen
      } catch {
        found.problems.append("\(path)/\(name) \(error)")
        if !hasEnd() { found.hasOpen = true }
      }
    }
    return found
  }

  /// The largest `.stall` file that is read.
  static let stallBytesMax = 64 << 20

  /// What the `.stall` file that is open as `descriptor` holds, and the number that its records have; `nil` when it cannot be
  /// read.
  package func stall(_ descriptor: Int32) -> (file: StallFile, tag: UInt16)? {
    SmallFile.bytes(descriptor, max: Self.stallBytesMax)
      .flatMap { try? StallFile(bytes: $0, samples: Stall.samplesForReport) }
      .map { ($0, $0.tag) }
  }

  /// The `.stall` file `name`; `nil` when it cannot be read.
  package func stall(_ name: String) -> StallFile? {
    guard let descriptor = open(name, O_RDONLY) else { return nil }
    defer { close(descriptor) }
    return stall(descriptor)?.file
  }
}

/// A directory, or a file in it, cannot be read.
package struct BlackBoxError: Error, CustomStringConvertible {
  /// Where it is.
  package var path: String
  /// The error number.
  package var number: Int32

  /// The error as a sentence without its end.
  package var description: String { "\(path): \(String(cString: strerror(number)))" }
}
