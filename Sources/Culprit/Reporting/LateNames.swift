import CCulpritLinux
import CulpritBlackBox
import CulpritStallRecord
import CulpritSymbols
import Glibc
import Synchronization

/// Adds symbol names to the stall files of earlier runs that were killed before they could add names.
///
/// Runs at the start of the watchdog: the next deployment replaces the executable and its libraries.
extension PreviousRuns {
  func addNames() {
    // Detached, because the disk might block the thread.
    try? PosixThread(name: "culprit-names") { [self] in
      _ = clinux_descriptor_take_own_table()
      _ = clinux_keep_root()
      guard let stalls = try? directory.names([".stall"]), let runs = try? directory.names([".run", ".told"]) else {
        return
      }
      // Newest first, because retention removes the oldest files first.
      for name in stalls.reversed() where !isStopping.load(ordering: .relaxed) {
        guard !hasNames(name), let run = runs.last(where: { FileNames.belongs(name, to: $0) }), isOver(run) else {
          continue
        }
        addNames(to: name)
      }
    }
    .detach()
  }

  /// Also true for an unreadable file.
  private func hasNames(_ name: String) -> Bool {
    guard let descriptor = directory.open(name, O_RDONLY) else { return true }
    defer { close(descriptor) }
    return hasNames(descriptor)
  }

  private func hasNames(_ descriptor: Int32) -> Bool {
    let length = StallFileWriter.namesLookedUpBytes
    let size = lseek(descriptor, 0, SEEK_END)
    var tail = [UInt8](repeating: 0, count: length)
    guard size >= off_t(length), pread(descriptor, &tail, length, size - off_t(length)) == length else { return true }
    return StallFileWriter.areNamesLookedUp(tail)
  }

  /// Whether the run is over, so no other process writes to its stall files.
  private func isOver(_ name: String) -> Bool {
    guard name != own else { return false }
    return files.withLock { _ in
      guard let descriptor = directory.open(name, O_RDONLY) else { return false }
      defer { close(descriptor) }
      return directory.recordAndState(descriptor).map { !$0.isRunning } ?? false
    }
  }

  private func addNames(to name: String) {
    guard let opened = directory.open(name, O_RDWR | O_APPEND) else { return }
    // The application might close this descriptor and reuse its number.
    var kept = clinux_descriptor_keep(opened)
    defer { clinux_descriptor_close(&kept) }
    // `clinux_descriptor_keep` moves a descriptor off the standard streams' numbers.
    let descriptor = kept.number
    // Another process might be adding names.
    guard DirectoryFiles.lock(descriptor), !hasNames(descriptor), let file = directory.stall(descriptor) else { return }
    let recording = file.recording
    let symbolizer = settings.symbolizer(of: recording, process: nil)
    var records: [UInt8] = []
    var seen = Set(recording.names.keys)
    for frame in recording.stacks.lazy.flatMap(\.frames) where seen.insert(frame.lookupAddress).inserted {
      // Symbolizing takes long, so a waiting fork goes first.
      clinux_fork_yield()
      records += StallFileWriter.record(ofLearnedNameOf: frame.lookupAddress, symbolizer.resolve(frame))
      if isStopping.load(ordering: .relaxed) { return }
    }
    records += StallFileWriter.recordOfNamesLookedUp()
    StallFileWriter.tag(&records, file.tag)
    files.withLock { _ in
      guard clinux_descriptor_is_ours(&kept) else { return }
      let size = lseek(descriptor, 0, SEEK_END)
      if clinux_write(descriptor, records, records.count) != records.count { ftruncate(descriptor, size) }
    }
  }
}
