import Judges
import CulpritBlackBox
import CulpritStallRecord
import FaultyDisks
import Glibc

/// Measures writes during a stall, as the kernel counts them for the watchdog's threads and for the disk.
struct BlackBoxCost {
  /// The duration of a measurement.
  private static let seconds = 10.0

  /// The threads that read memory by writing it to a memory file. The kernel counts these writes like writes to disk.
  private static let sampler = "culprit-sample"

  private struct Counts {
    /// Writes of the watchdog's threads, except samplers; dirtied bytes include samplers.
    var threads = (bytes: 0, calls: 0, dirtied: 0)
    /// Bytes written to the device, and cache flushes.
    var device: (bytes: Int, flushes: Int)?
    var samples = 0.0
    var fileBytes = 0.0
  }

  /// Runs a uniform and a varied stall and prints the cost of both.
  ///
  /// - Parameter figures: Receives the results.
  /// - Throws: ``SpawnError``, ``ProofError``.
  func run(_ figures: Figures) throws {
    var disk: FaultyDisk?
    if let obstacle = FaultyDisk.obstacle {
      figures.note("writes to the device are not measured: \(obstacle)")
    } else {
      disk = try FaultyDisk(.ext4, mebibytes: 64, seconds: 120)
    }
    let directory = disk.map { $0.path + "/stalls" } ?? "/var/tmp/culprit-cost-\(getpid())"
    defer {
      if disk == nil {
        for name in (try? BlackBoxDirectory(path: directory).names([""])) ?? [] { unlink("\(directory)/\(name)") }
        rmdir(directory)
      }
    }
    for isVaried in [false, true] { try run(isVaried, disk, directory, figures) }
  }

  private func run(_ isVaried: Bool, _ disk: FaultyDisk?, _ directory: String, _ figures: Figures) throws {
    // The service runs in another mount namespace, in which the path of the directory differs.
    let inside = disk.map { $0.pathInside + "/stalls" } ?? directory
    let service = try ServiceProcess(besideThis: "blackbox-process", [inside, "latency"], on: disk)
    defer { service.end() }
    service.send(isVaried ? "stall differently" : "stall")
    guard service.fact("stalled") != nil else { throw ProofError("the service did not begin") }
    let box = BlackBoxDirectory(path: directory)
    func file() -> String? { (try? box.names([".stall"]))?.first { $0.contains("-\(service.process)-") } }
    func stall() -> Stall? { file().flatMap { box.stall($0) }?.recording.stalls.first }
    // Skips one-time writes: modules and all threads at the beginning of the stall, names when it becomes a hang.
    while stall()?.others?.isComplete != true || stall()?.notes.contains(where: { $0.kind == .hang }) != true {
      usleep(10_000)
    }
    usleep(1_000_000)
    func counts() -> Counts {
      var counts = Counts()
      counts.threads = service.written(byThreads: "culprit-", except: Self.sampler)
      counts.threads.dirtied = service.written(byThreads: "culprit-").dirtied
      counts.device = disk?.written
      counts.samples = Double(stall()?.samples.count ?? 0)
      var information = stat()
      if let file = file(), stat("\(directory)/\(file)", &information) == 0 {
        counts.fileBytes = Double(information.st_size)
      }
      return counts
    }
    let clock = ContinuousClock()
    let began = clock.now
    let before = counts()
    usleep(UInt32(Self.seconds * 1e6))
    let after = counts()
    let seconds = (clock.now - began) / .seconds(1)
    service.send("exit")
    let suffix = isVaried ? "_varied" : ""
    let samples = after.samples - before.samples
    figures.print("blackbox.samples\(suffix)", samples, "samples", in: 10...1000)
    figures.print(
      "blackbox.bytes_per_sample\(suffix)",
      (after.fileBytes - before.fileBytes) / samples,
      "bytes",
      in: 1...(isVaried ? 1000 : 200)
    )
    func perSecond(_ name: String, _ count: Int, _ unit: String, in bound: ClosedRange<Double>) {
      figures.print("blackbox.\(name)_per_second\(suffix)", Double(count) / seconds, unit, in: bound)
    }
    perSecond("writes", after.threads.calls - before.threads.calls, "calls", in: 1...40)
    perSecond("bytes", after.threads.bytes - before.threads.bytes, "bytes", in: 1...10_000)
    perSecond("dirtied_bytes", after.threads.dirtied - before.threads.dirtied, "bytes", in: 0...50_000)
    if let first = before.device, let last = after.device {
      perSecond("device_bytes", last.bytes - first.bytes, "bytes", in: 0...50_000)
      perSecond("device_flushes", last.flushes - first.flushes, "flushes", in: 0...5)
    }
  }
}
