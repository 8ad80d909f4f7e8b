internal import Foundation
package import ChaparCore

extension ConfigurationLoader {
    /// Reads a configuration of another program, YAML or JSON, into values with their places.
    ///
    /// References such as `${NAME}` stay as they are: only the other program knows what they mean there.
    ///
    /// - Throws: The mistake of a file that cannot be read as YAML.
    package static func foreignValues(of path: String) throws(ConfigurationError) -> ConfigNode {
        let files = FolderFiles(folder: FolderPath.folder(of: path))
        let bytes: [UInt8]
        do {
            bytes = try files.contents(of: (path as NSString).lastPathComponent)
        } catch {
            let fix = (error as? FolderFiles.Unreadable)?.fix
            throw ConfigurationError([ConfigIssue(path: "", origin: .builtIn, problem: "\(error)", fix: fix)])
        }
        var escaped: [UInt8] = []
        escaped.reserveCapacity(bytes.count)
        for (place, byte) in bytes.enumerated() {
            if byte == UInt8(ascii: "$"), place + 1 < bytes.count, bytes[place + 1] == UInt8(ascii: "{") {
                escaped.append(byte)
            }
            escaped.append(byte)
        }
        var document = ConfigDocument(name: path, interpolation: Interpolation(environment: [:], files: files))
        do throws(UnreadableDocument) {
            return try document.read(escaped)
        } catch {
            throw ConfigurationError([error.issue])
        }
    }
}
