import CulpritBlackBox
import Glibc
import Judges

/// Cuts and corrupts files that services left, and reads what is left of them: nothing may crash, and what is said must
/// be what the whole files say, or less.
struct DamageSoak {
  /// How many random corruptions are tried, over all files.
  var corruptions: Int
  /// Every file is cut at each of so many of its last bytes.
  var cuts: Int
  /// What happens at random follows from it.
  var seed: UInt64

  /// What became of the files.
  private struct Counts {
    var cuts = 0
    var corruptions = 0
    var refused = 0
    var wrong = 0
  }

  /// Runs the soak test on `files` and prints what came of it in `figures`.
  func run(_ files: [KeptFiles.File], _ figures: Figures) {
    var counts = Counts()
    var random = SeededGenerator(state: seed)
    let checks = files.compactMap { file -> (any DamageCheck)? in
      if file.name.hasSuffix(".stall") { return StallDamage(file.bytes) }
      return RunDamage(file.bytes)
    }
    if checks.count < files.count { figures.note("\(files.count - checks.count) files cannot be read whole") }
    for check in checks {
      for length in max(0, check.whole.count - cuts)..<check.whole.count {
        counts.cuts += 1
        tell(check.judge(Array(check.whole[..<length]), isCut: true), "cut after \(length) bytes", &counts, figures)
      }
    }
    for number in 0..<(checks.isEmpty ? 0 : corruptions) {
      let check = checks[number % checks.count]
      counts.corruptions += 1
      var bytes = check.whole
      let what = Damage.random(
        &bytes,
        other: files[Int.random(in: files.indices, using: &random)].bytes,
        using: &random
      )
      tell(check.judge(bytes, isCut: false), what, &counts, figures)
    }
    figures.print("blackbox.damaged", Double(files.count), "files")
    figures.print("blackbox.cuts", Double(counts.cuts), "files")
    figures.print("blackbox.corruptions", Double(counts.corruptions), "files")
    figures.print("blackbox.refused", Double(counts.refused), "files")
    figures.print("blackbox.unread", Double(files.count - checks.count), "files", in: 0...0)
    figures.print("blackbox.wrong", Double(counts.wrong), "files", in: 0...0)
  }

  private func tell(_ outcome: DamageOutcome, _ damage: String, _ counts: inout Counts, _ figures: Figures) {
    switch outcome {
    case .right: break
    case .refused: counts.refused += 1
    case .wrong(let what):
      counts.wrong += 1
      if counts.wrong <= 20 { figures.note("\(damage): \(what)") }
    }
  }
}

/// Files that services have left.
final class KeptFiles {
  struct File {
    var name: String
    var bytes: [UInt8]
  }

  private(set) var all: [File] = []

  /// Takes what is in `directory` now.
  func add(_ directory: String) {
    let names = (try? BlackBoxDirectory(path: directory).names([".run", ".told", ".stall"])) ?? []
    for name in names {
      let descriptor = open("\(directory)/\(name)", O_RDONLY | O_CLOEXEC)
      guard descriptor >= 0 else { continue }
      defer { close(descriptor) }
      var bytes: [UInt8] = []
      var chunk = [UInt8](repeating: 0, count: 64 << 10)
      while true {
        let count = read(descriptor, &chunk, chunk.count)
        guard count > 0 else { break }
        bytes += chunk[..<count]
      }
      // One that could not be written, because the disk was full, has nothing to damage.
      if !bytes.isEmpty { all.append(File(name: name, bytes: bytes)) }
    }
  }
}

/// Ways in which files are damaged.
private enum Damage {
  /// Changes `bytes` at random; a part of `other` may get into it. Returns what was done.
  static func random(_ bytes: inout [UInt8], other: [UInt8], using random: inout SeededGenerator) -> String {
    let place = Int.random(in: 0..<bytes.count, using: &random)
    // Mostly small: what is small is hard to notice.
    let longest = min(bytes.count - place, 1 << Int.random(in: 0...13, using: &random))
    let length = Int.random(in: 1...max(1, longest), using: &random)
    let range = place..<place + length
    switch Int.random(in: 0..<9, using: &random) {
    case 0:
      bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
      return "a bit at \(place)"
    case 1:
      for index in range { bytes[index] = UInt8.random(in: 0...255, using: &random) }
      return "noise in \(range)"
    case 2:
      for index in range { bytes[index] = 0 }
      return "zeros in \(range)"
    case 3:
      bytes.removeSubrange(range)
      return "without \(range)"
    case 4:
      bytes.insert(contentsOf: Array(bytes[range]), at: place)
      return "\(range) twice"
    case 5:
      let from = Int.random(in: 0...bytes.count - length, using: &random)
      bytes.replaceSubrange(range, with: Array(bytes[from..<from + length]))
      return "\(from)+\(length) in \(range)"
    case 6:
      let noise = (0..<length).map { _ in UInt8.random(in: 0...255, using: &random) }
      bytes.insert(contentsOf: noise, at: place)
      return "noise before \(range)"
    case 7:
      bytes.removeSubrange(place...)
      bytes += other.suffix(length)
      // Files of runs begin alike: what has come of it may be the other one, whole.
      if bytes == other { bytes.removeLast() }
      return "cut after \(place), with \(min(length, other.count)) bytes of another file"
    default:
      for _ in 0..<8 {
        bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
      }
      return "eight bytes"
    }
  }
}

/// Random numbers that follow from a seed.
struct SeededGenerator: RandomNumberGenerator {
  /// Where it is.
  var state: UInt64

  mutating func next() -> UInt64 {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    let mixed = (state ^ state >> 33) &* 0xff51_afd7_ed55_8ccd
    return mixed ^ mixed >> 33
  }
}
