-- held KEY: how many places are taken.
return call('ZCOUNT', key, '(' .. digits(clock()), '+inf')
