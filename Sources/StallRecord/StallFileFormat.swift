/// What `.stall` files are made of. `docs/stall-format.md` describes them for somebody who writes a reader.
enum StallFileFormat {
  /// The first bytes of every file.
  static let magic = Array("CULPRIT\n".utf8)

  /// Readers refuse a file with a higher major version.
  static let majorVersion: UInt16 = 1

  /// Readers skip what a higher minor version added: records of unknown kinds, and bytes at the end of known ones.
  static let minorVersion: UInt16 = 10

  /// The magic, two version numbers and the checksum of those.
  static let headerBytes = 16

  /// A record's length, kind and reserved field, before its payload.
  static let recordHeadBytes = 8

  /// The checksum after a record's payload.
  static let recordTailBytes = 4

  /// The longest payload that is believed: a corrupt length must not make a reader allocate gigabytes.
  static let payloadBytesMax = 1 << 20

  /// Longer lists of names, and longer names in them, are cut, so that a record stays within its bounds.
  static let listMax = 128
  static let listedCharactersMax = 512

  /// What a record is about.
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
