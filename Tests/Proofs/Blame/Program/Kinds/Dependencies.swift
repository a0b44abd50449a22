import Foundation
import Retries

extension Kind {
  static let dependencies = [
    Kind("fetchPages", fetchPages), Kind("squeezeArchive", with: ["ArchivePage"], squeezeArchive),
  ]

  /// The kinds in which a dependency takes the time, and the dependency's name in reports.
  static let squeezers = ["squeezeArchive": "Squeezer"]
}

/// A dependency calls back.
@inline(never)
private func fetchPages(until end: UInt64) {
  var value = 1
  let attempts = retrying { attempt -> Int? in
    for _ in 0..<500 { value = value &* 1_103_515_245 &+ 12_345 }
    return isBefore(end) ? nil : attempt
  }
  keep(attempts &+ value)
}

private struct ArchivePage {
  var bytes = (0..<2000).map { UInt8(truncatingIfNeeded: $0 / 7) }
}

/// A dependency takes the time.
@inline(never)
private func squeezeArchive(until end: UInt64) {
  let page = ArchivePage()
  keep(Squeezer().squeeze(page.bytes) { isBefore(end) })
}
