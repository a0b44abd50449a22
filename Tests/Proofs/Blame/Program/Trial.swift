import Foundation
import Judges
import NativeWork
import SplitMix

/// One stall. The first kind takes 55 to 85 % of it, other kinds share the rest. In divided trials, no kind takes half.
struct Trial: Sendable {
  var number: Int
  /// The kinds in order of execution, with their shares of the stall.
  var parts: [(kind: Kind, share: Double)]
  /// The duration of the stall, in nanoseconds.
  var length: UInt64
  var threshold: Duration

  var name: String { "trial \(number)" }

  @inline(never)
  func stall() -> [BlameTruth.Part] {
    var course: [BlameTruth.Part] = []
    let begin = native_now()
    var passed = 0.0
    for part in parts {
      passed += part.share
      let (time, delay, start) = (native_thread_time(), runDelay(), course.isEmpty ? begin : native_now())
      part.kind.run(begin + UInt64(Double(length) * passed))
      let end = native_now()
      course.append(
        BlameTruth.Part(
          name: part.kind.name,
          identifiers: part.kind.identifiers,
          begin: start,
          end: end,
          running: native_thread_time() - time,
          delayed: runDelay() - delay
        )
      )
    }
    return course
  }
}

/// The time the calling thread was runnable without a CPU, in nanoseconds (proc(5), `schedstat`).
private func runDelay() -> UInt64 {
  let file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)
  guard file >= 0 else { return 0 }
  defer { close(file) }
  var bytes = [UInt8](repeating: 0, count: 128)
  let count = read(file, &bytes, bytes.count)
  let fields = String(decoding: bytes.prefix(max(0, count)), as: UTF8.self).split(separator: " ")
  return fields.count > 1 ? UInt64(fields[1]) ?? 0 : 0
}

/// Draws random trials.
struct Lottery {
  var random: SplitMix
  var kinds: [Kind]
  /// The durations of trials, in milliseconds.
  var lengths: ClosedRange<Int>
  /// The interval between divided trials, in which no part has half of the time; 0 for none.
  var dividedEvery: Int
  private var nextFirsts: [Kind] = []
  private var runs: [String: Int] = [:]

  init(seed: UInt64, kinds: [Kind], lengths: ClosedRange<Int>, dividedEvery: Int) {
    random = SplitMix(seed)
    self.kinds = kinds
    self.lengths = lengths
    self.dividedEvery = dividedEvery
  }

  mutating func draw(_ number: Int) -> Trial {
    let isDivided = dividedEvery > 0 && number % dividedEvery == 0
    var shares: [Double]
    if isDivided {
      let first = Double.random(in: 0.38...0.45, using: &random)
      let second = Double.random(in: 0.30...0.36, using: &random)
      shares = [first, second, 1 - first - second].shuffled(using: &random)
    } else {
      shares = [Double.random(in: 0.55...0.85, using: &random)]
      let others = Int.random(in: 1...3, using: &random)
      var rest = 1 - shares[0]
      for left in stride(from: others, to: 1, by: -1) {
        let part = rest / Double(left) * Double.random(in: 0.6...1.4, using: &random)
        shares.append(part)
        rest -= part
      }
      shares.append(rest)
    }
    var chosen = [first()]
    while chosen.count < shares.count {
      guard let kind = kinds.randomElement(using: &random), !chosen.contains(where: { $0.name == kind.name }),
        isLeft(kind)
      else { continue }
      chosen.append(kind)
    }
    for kind in chosen { runs[kind.name, default: 0] += 1 }
    let length = UInt64(Int.random(in: lengths, using: &random)) * 1_000_000
    return Trial(
      number: number,
      parts: zip(chosen, shares).map { (kind: $0, share: $1) },
      length: length,
      threshold: .nanoseconds(Int64(Double(length) * Double.random(in: 0.88...0.92, using: &random)))
    )
  }

  /// Returns the first kind of a trial. Each kind is first equally often.
  private mutating func first() -> Kind {
    while true {
      if nextFirsts.isEmpty { nextFirsts = kinds.shuffled(using: &random) }
      let kind = nextFirsts.removeLast()
      if isLeft(kind) { return kind }
    }
  }

  private func isLeft(_ kind: Kind) -> Bool { runs[kind.name, default: 0] < kind.runsMax }
}
