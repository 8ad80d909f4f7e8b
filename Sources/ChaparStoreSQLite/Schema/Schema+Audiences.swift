extension Schema {
    /// The audiences: what belongs to users and devices besides tags, as labels (``AudienceLabel``).
    ///
    /// * `user_labels`: tags of users, segments with lists of users, and choices about lists.
    /// * `device_labels`: the labels of a device's user, copied, and the device's own: segments with lists of devices,
    ///   and its standing. `labels_of_devices` finds those of a device.
    /// * `label_counts`: the number of devices of an app with a tag or another counted label; a label without devices
    ///   has no row.
    static let audiences = """
        CREATE TABLE user_labels (
            user TEXT NOT NULL, label TEXT NOT NULL, PRIMARY KEY (user, label)
        ) WITHOUT ROWID, STRICT;
        CREATE INDEX labelled_users ON user_labels (label, user);
        CREATE TABLE device_labels (
            label TEXT NOT NULL, device INTEGER NOT NULL, PRIMARY KEY (label, device)
        ) WITHOUT ROWID, STRICT;
        CREATE INDEX labels_of_devices ON device_labels (device);
        CREATE TABLE label_counts (
            app TEXT NOT NULL, label TEXT NOT NULL, devices INTEGER NOT NULL, PRIMARY KEY (app, label)
        ) WITHOUT ROWID, STRICT;
        INSERT INTO label_counts (app, label, devices)
            SELECT CASE WHEN instr(d.id, '/') = 0 THEN 'default' ELSE substr(d.id, 1, instr(d.id, '/') - 1) END AS app,
                't:' || t.tag, count(*)
            FROM device_tags t JOIN devices d ON d.number = t.device GROUP BY app, t.tag;
        """
}
