/// Constants of `.stall` files. `docs/internals/stall-format.md` describes the format for authors of readers.
enum StallFileFormat {
  /// The first bytes of every file.
  static let magic = Array("CULPRIT\n".utf8)

  /// The major version. Readers reject a file with a higher one.
  static let majorVersion: UInt16 = 1

  /// The minor version. Readers skip the additions of a higher one: records of unknown kinds, and bytes at the end of
  /// known ones.
  static let minorVersion: UInt16 = 11

  /// The size of the header: the magic bytes, two version numbers and their checksum.
  static let headerBytes = 16

  /// The size of a record's length, kind and tag, which precede the payload.
  static let recordHeadBytes = 8

  /// The size of the checksum after a record's payload.
  static let recordTailBytes = 4

  /// Maximum payload size, so that a corrupt length cannot cause a huge allocation.
  static let payloadBytesMax = 1 << 20

  /// Maximum lengths of a list of names and of the names in it, which limit the size of a record. Longer ones are
  /// truncated.
  static let listMax = 128
  static let listedCharactersMax = 512

  /// The kind of a record.
  enum RecordKind: UInt16 {
    case process = 1
    case module = 2
    case thread = 3
    case stack = 4
    case stallBegan = 5
    case sample = 6
    case stallEnded = 7
    case otherThread = 8
    case othersCaptured = 9
    case name = 10
    case note = 11
    case stallGoesOn = 12
    case namesLookedUp = 13
    case holder = 14
  }
}
