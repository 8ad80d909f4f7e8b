public import Foundation
import ChaparCore

/// Which property list holds the versions: the client library's way to name it.
public struct PlistFileConfiguration: Sendable, Hashable {
    /// The folder, which stands for the app's bundle.
    public var folder: URL
    /// The file's name without the extension `plist`.
    public var fileName: String

    /// Makes one; the name is the library's default unless given.
    public init(folder: URL, fileName: String = "Versions") {
        self.folder = folder
        self.fileName = fileName
    }

    /// Makes one for a file of a bundle.
    public init(bundle: Bundle, fileName: String = "Versions") {
        self.init(folder: bundle.resourceURL ?? bundle.bundleURL, fileName: fileName)
    }

    /// The library's default: `Versions.plist` of the main bundle, which for a program on a server is the folder that
    /// it is in.
    public static var `default`: PlistFileConfiguration { PlistFileConfiguration(bundle: .main) }

    /// The file.
    public var file: URL { folder.appendingPathComponent(fileName).appendingPathExtension("plist") }
}

/// The client library's name for ``ReleaseNotes``.
public typealias NKVersionsData = ReleaseNotes

extension ReleaseNotes {
    /// Reads a property list as the client library does; nil when there is no usable one.
    ///
    /// - Parameters:
    ///   - plistFileConfiguration: The file.
    ///   - tell: Gets everything that is wrong or was skipped; by default it is written to standard error, as the
    ///     library's page promises.
    public init?(
        plistFileConfiguration: PlistFileConfiguration,
        tell: (ReleaseNotesProblem) -> Void = { FileHandle.standardError.write(Data("\($0)\n".utf8)) }
    ) {
        do throws(ReleaseNotesReader.Failure) {
            let reading = try ReleaseNotesReader.read(plistFileConfiguration)
            reading.warnings.forEach(tell)
            self = reading.notes
        } catch {
            error.problems.forEach(tell)
            return nil
        }
    }
}

extension ReleaseNotes: Decodable {
    /// Reads the list of an answer, in either JSON form; one bad item makes it bad.
    public init(from decoder: any Decoder) throws {
        let json = try JSONValue(from: decoder)
        do throws(ReleaseNotesReader.Failure) {
            self = try ReleaseNotesReader.read(json.bytes, name: "answer", mode: .strict).notes
        } catch {
            let context = DecodingError.Context(codingPath: decoder.codingPath, debugDescription: error.description)
            throw DecodingError.dataCorrupted(context)
        }
    }
}

extension ReleaseNotesReader {
    /// Reads the property list of a configuration; bad items are skipped, with a warning each.
    public static func read(_ configuration: PlistFileConfiguration) throws(Failure) -> Reading {
        try read(file: configuration.file, mode: .lenient)
    }
}
