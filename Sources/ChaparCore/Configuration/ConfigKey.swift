/// A key that a section of a configuration reads, whether the file has it or not.
///
/// Sections record a key at each typed read (``ConfigReport/keys``); the tables of keys in the documents are generated
/// from them.
package struct ConfigKey: Sendable, Hashable {
    /// The key's path, such as `backends.ios.team_id`.
    package var path: String
    /// The form of its value, such as `whole number, 1 to 65535`.
    package var form: String
    /// The value when it is absent; nil when there is none.
    package var standard: String?
    /// Whether it is required.
    package var isRequired = false
}

extension ConfigSection {
    /// Records a key that is read; the first record of a key must be the most specific one.
    func record(_ key: String, _ form: String, standard: String? = nil, isRequired: Bool = false) {
        report.record(
            ConfigKey(
                path: path.isEmpty ? key : "\(path).\(key)",
                form: form,
                standard: standard,
                isRequired: isRequired
            )
        )
    }
}
