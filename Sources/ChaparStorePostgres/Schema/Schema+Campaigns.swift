extension Schema {
    /// The campaigns, and the notifications that their windows made.
    ///
    /// * `campaigns.version`: the number of changes; a change is written only over the version that it was made from.
    /// * `campaigns.ended`: when all of it was over, null before.
    /// * `campaigns.packed`: the campaign in the form of `Campaign.encoded`.
    /// * `campaign_parts.first`: the number of the notification, which is that of its first delivery.
    /// * `campaign_parts.place`: the place of that delivery among those of the campaign.
    /// * `campaign_parts.open`: false once nothing of the part waits.
    ///
    /// Times are milliseconds since 1970, on the steady clock.
    static let campaigns = """
        CREATE TABLE chapar.campaigns (
            id bigint PRIMARY KEY, version bigint NOT NULL, ended bigint, packed bytea NOT NULL
        ) WITH (fillfactor = 50);
        CREATE INDEX campaigns_open ON chapar.campaigns (id) WHERE ended IS NULL;
        CREATE INDEX campaigns_ended ON chapar.campaigns (ended) WHERE ended IS NOT NULL;
        CREATE TABLE chapar.campaign_parts (
            campaign bigint, first bigint, place bigint NOT NULL, count integer NOT NULL, open boolean NOT NULL,
            PRIMARY KEY (campaign, first)
        );
        CREATE INDEX campaign_parts_open ON chapar.campaign_parts (campaign, first) WHERE open
        """
}
