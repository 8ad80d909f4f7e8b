-- Run once, by PostgreSQL's image, when it makes the database: the gateway owns its database and nothing else, and the superuser has no
-- password, so that nobody is one over the network.
\set password `cat /run/secrets/database-password`
CREATE ROLE chapar LOGIN PASSWORD :'password';
CREATE DATABASE chapar OWNER chapar;
ALTER ROLE postgres PASSWORD NULL;
